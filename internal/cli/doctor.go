package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/harness-go/harness/internal/config"
	"github.com/harness-go/harness/internal/daemon"
	"github.com/harness-go/harness/store"
)

// check is one thing that doctor looked at. State is ok, warn or fail.
type check struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`
}

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Check what runs need on this machine", Args: cobra.NoArgs,
		Long: "Check configuration, state directory, models and programs. It ends with code 1 when something fails.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			checks := a.examine(cmd.Context())
			failed := slices.ContainsFunc(checks, func(c check) bool { return c.State == "fail" })
			if a.json {
				if err := a.print(map[string]any{"ok": !failed, "checks": checks}); err != nil {
					return err
				}
			} else {
				a.showChecks(checks)
			}
			if failed {
				return exit(ExitFailed)
			}
			return nil
		},
	}
}

func (a *app) showChecks(checks []check) {
	st := a.style()
	marks := map[string]string{"ok": st.Green("✓"), "warn": st.Yellow("!"), "fail": st.Red("✗")}
	for _, c := range checks {
		fmt.Fprintf(a.out, "%s %-14s %s\n", marks[c.State], c.Name, c.Detail)
		if c.Fix != "" {
			fmt.Fprintf(a.out, "  %-14s → %s\n", "", c.Fix)
		}
	}
}

func (a *app) examine(ctx context.Context) []check {
	list := []check{{Name: "program", State: "ok", Detail: a.build.String()}}
	c, err := a.load(nil)
	if err != nil {
		return append(list, check{"configuration", "fail", err.Error(), "correct the value or take it away"})
	}
	list = append(list, configurationChecks(c)...)
	list = append(list, a.stateCheck(ctx, c), addressCheck(ctx, c), modelCheck(c))
	list = append(list, sandboxCheck(c))
	return append(list, programCheck("bash", "fail", "the bash tool needs it"), programCheck("git", "warn", "agents use it in most repositories"))
}

func configurationChecks(c config.Config) []check {
	var from []string
	for key, source := range c.Origins {
		from = append(from, key+" from "+source)
	}
	slices.Sort(from)
	detail := "defaults only"
	if len(from) > 0 {
		detail = strings.Join(from, "; ")
	}
	list := []check{{Name: "configuration", State: "ok", Detail: detail}}
	for _, n := range c.Notes {
		list = append(list, check{Name: "configuration", State: "warn", Detail: n})
	}
	return list
}

// stateCheck opens the store as a command would, or finds who has it.
func (a *app) stateCheck(ctx context.Context, c config.Config) check {
	ch := check{Name: "state", State: "ok"}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	l, found, err := a.overSocket(ctx, c)
	if err == nil && found {
		if err = l.Health(ctx); err == nil {
			ch.Detail = c.StateDir + ": a running node has it and answers on " + daemon.SocketName
			return ch
		}
	}
	if err == nil {
		var n *daemon.Node
		if n, err = daemon.Open(ctx, daemon.Options{Config: c}); err == nil {
			err = n.Close(ctx)
		}
	}
	switch {
	case errors.Is(err, store.ErrLocked):
		return check{"state", "warn", err.Error() + ", and does not answer on its socket", "wait for that process, stop it, or use --server with a key"}
	case err != nil:
		return check{"state", "fail", err.Error(), "choose a folder that this user can write with HARNESS_STATE_DIR"}
	}
	ch.Detail = c.StateDir + ": the store opens; no daemon runs"
	if info, err := os.Stat(c.StateDir); err == nil && info.Mode().Perm()&0o077 != 0 {
		ch.State, ch.Fix = "warn", "chmod 700 "+c.StateDir
		ch.Detail += fmt.Sprintf("; others can enter the folder (%s)", info.Mode().Perm())
	}
	return ch
}

func addressCheck(ctx context.Context, c config.Config) check {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", c.Addr)
	if err != nil {
		return check{"address", "warn", c.Addr + ": " + err.Error(), "a daemon may have it already; else choose another with HARNESS_ADDR"}
	}
	_ = l.Close()
	return check{Name: "address", State: "ok", Detail: c.Addr + " is free"}
}

func modelCheck(c config.Config) check {
	if len(c.Providers) == 0 {
		return check{"models", "fail", "no model provider is configured",
			"set OPENAI_API_KEY, list providers in " + filepath.Join(c.UserDir, "harness.yaml") + ", or use HARNESS_PROVIDER=fake"}
	}
	var names []string
	for _, p := range c.Providers {
		s := p.Name
		if p.APIKey.IsZero() && !c.Fake() {
			s += " (no key)"
		}
		names = append(names, s)
	}
	ch := check{Name: "models", State: "ok", Detail: "providers: " + strings.Join(names, ", ")}
	if c.Model == "" && !c.Fake() && len(c.Providers[0].Models) == 0 {
		ch.State, ch.Fix = "warn", "set HARNESS_MODEL, or give --model with each run"
		ch.Detail += "; there is no default model"
	}
	return ch
}

func sandboxCheck(c config.Config) check {
	return check{"sandbox", "warn", fmt.Sprintf("tier 0: commands of runs have the rights of this user, so approvals are advisory (approval floor: %s)", c.Floor.Approval),
		"the kernel sandbox (tier 1) is not built yet; run agents on what you do not trust in a virtual machine or container"}
}

func programCheck(name, missing, why string) check {
	path, err := exec.LookPath(name)
	if err != nil {
		return check{name, missing, "not found in PATH; " + why, "install " + name}
	}
	return check{Name: name, State: "ok", Detail: path}
}
