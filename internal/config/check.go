package config

import (
	"slices"
	"strings"

	"github.com/harness-go/harness/model"
)

// check holds the rules between settings.
func (l *loader) check() error {
	c := &l.config
	bad := func(key, message string) error {
		source := c.Origins[key]
		if source == "" {
			source = "default"
		}
		return &Error{Source: source, Key: key, Message: message}
	}
	if c.StateDir == "" {
		return bad("state_dir", "there is no home folder to keep it in; set HARNESS_STATE_DIR")
	}
	remote := !Loopback(c.Addr)
	switch {
	case c.ModelRecord != "" && c.ModelReplay != "":
		return bad("model_replay", "cannot be together with model_record, from "+c.Origins["model_record"]+": traffic is recorded or replayed")
	case c.Fake() && c.ModelRecord != "":
		return bad("model_record", "has nothing to record: the provider fake answers without model traffic")
	case c.Fake() && c.ModelReplay != "":
		return bad("model_replay", "has nothing to answer: the provider fake answers without model traffic")
	case remote && c.AuthDisabled:
		return bad("auth_disabled", "is allowed only while addr is a loopback address, and "+c.Addr+" is not one; remove it and make a key with: harness keys create")
	case c.Floor.Sandbox != "unrestricted":
		return bad("floor.sandbox", string(c.Floor.Sandbox)+" is not available on this node: the kernel sandbox is not built yet, and a floor that nothing enforces would be a false promise")
	case c.Floor.Network != "allow":
		return bad("floor.network", string(c.Floor.Network)+" is not available on this node: network rules need the kernel sandbox, which is not built yet")
	case remote && !c.AllowRemoteUnsandboxed:
		return bad("addr", c.Addr+" can be reached from other machines, and no kernel sandbox holds the runs of this node; "+
			"use a loopback address, or accept the risk with --allow-remote-unsandboxed")
	}
	if c.Provider != "" && !slices.ContainsFunc(c.Providers, func(p model.ProviderConfig) bool { return p.Name == c.Provider }) {
		return bad("provider", c.Provider+" is not configured; "+configured(c.Providers))
	}
	if remote && len(c.AllowedHosts) == 0 {
		l.note("allowed_hosts is empty: requests that name another host than localhost or the address itself are refused.")
	}
	if c.StateDir == c.Workspace || strings.HasPrefix(c.StateDir, strings.TrimSuffix(c.Workspace, "/")+"/") {
		l.note("The state directory lies in the workspace: the file tools of runs can reach it. Set HARNESS_STATE_DIR to a folder outside.")
	}
	return nil
}

func configured(list []model.ProviderConfig) string {
	if len(list) == 0 {
		return "no provider is: set OPENAI_API_KEY, list providers in harness.yaml, or use provider fake"
	}
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = p.Name
	}
	return "configured are " + strings.Join(names, ", ")
}
