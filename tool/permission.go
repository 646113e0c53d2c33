package tool

import (
	"errors"
	"fmt"
	"slices"

	"github.com/harness-go/harness/sandbox"
)

// SandboxScope is where a run's files and processes live.
type SandboxScope = sandbox.Scope

// The sandbox scopes, from loose to strict.
const (
	SandboxScopeUnrestricted = sandbox.ScopeUnrestricted
	SandboxScopeLocal        = sandbox.ScopeLocal
	SandboxScopeWorkspace    = sandbox.ScopeWorkspace
)

// NetworkPolicy is what a run can reach.
type NetworkPolicy = sandbox.NetworkMode

// The network policies, from loose to strict.
const (
	NetworkPolicyAllow = sandbox.NetworkAllow
	NetworkPolicyHosts = sandbox.NetworkHosts
	NetworkPolicyDeny  = sandbox.NetworkDeny
)

// ApprovalPolicy says which calls wait for a person.
type ApprovalPolicy string

// The approval policies, from loose to strict.
const (
	ApprovalPolicyNone        ApprovalPolicy = "none"
	ApprovalPolicyDestructive ApprovalPolicy = "destructive"
	ApprovalPolicyAll         ApprovalPolicy = "all"
)

// Asks reports whether the policy itself makes a call of this kind wait. An unknown policy asks always.
func (p ApprovalPolicy) Asks(k Kind) bool {
	switch p {
	case ApprovalPolicyNone, "":
		return false
	case ApprovalPolicyDestructive:
		return k.Mutating()
	}
	return true
}

var (
	scopeOrder    = []SandboxScope{SandboxScopeUnrestricted, SandboxScopeLocal, SandboxScopeWorkspace}
	networkOrder  = []NetworkPolicy{NetworkPolicyAllow, NetworkPolicyHosts, NetworkPolicyDeny}
	approvalOrder = []ApprovalPolicy{ApprovalPolicyNone, ApprovalPolicyDestructive, ApprovalPolicyAll}
)

// PermissionConfig are the permissions of a run, or the floor of a node. An empty axis is its default: unrestricted,
// none, allow. AllowedHosts belongs to the network policy hosts: "api.example.com", "*.example.org" (any name below
// it, not itself), "host:8443". An entry without a port means the ports 80 and 443.
type PermissionConfig struct {
	Sandbox      SandboxScope   `json:"sandbox"`
	Approval     ApprovalPolicy `json:"approval"`
	Network      NetworkPolicy  `json:"network,omitempty"`
	AllowedHosts []string       `json:"allowed_hosts,omitempty"`
}

// DefaultPermissionConfig is what holds for a request without permissions: no sandbox, no approvals.
func DefaultPermissionConfig() PermissionConfig {
	return PermissionConfig{Sandbox: SandboxScopeUnrestricted, Approval: ApprovalPolicyNone, Network: NetworkPolicyAllow}
}

// Normalize fills empty axes with their defaults and brings the hosts into their one form: lower case, without a
// trailing dot, sorted, each once. Hosts that are not valid stay as they are, for Validate to name.
func (p PermissionConfig) Normalize() PermissionConfig {
	d := DefaultPermissionConfig()
	if p.Sandbox == "" {
		p.Sandbox = d.Sandbox
	}
	if p.Approval == "" {
		p.Approval = d.Approval
	}
	if p.Network == "" {
		p.Network = d.Network
	}
	hosts := make([]string, 0, len(p.AllowedHosts))
	for _, h := range p.AllowedHosts {
		if r, err := parseHost(h); err == nil {
			h = r.String()
		}
		hosts = append(hosts, h)
	}
	slices.Sort(hosts)
	p.AllowedHosts = slices.Compact(hosts)
	if len(p.AllowedHosts) == 0 {
		p.AllowedHosts = nil
	}
	return p
}

// MaxAllowedHosts bounds AllowedHosts.
const MaxAllowedHosts = 256

// Validate checks a request, or a floor, by itself. Its errors name the field: "permissions.sandbox: …". All faults
// are reported at once.
func (p PermissionConfig) Validate() error {
	p = p.Normalize()
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("permissions."+field+": "+format, args...))
	}
	if !slices.Contains(scopeOrder, p.Sandbox) {
		bad("sandbox", "%q is not one of unrestricted, local, workspace", p.Sandbox)
	}
	if !slices.Contains(approvalOrder, p.Approval) {
		bad("approval", "%q is not one of none, destructive, all", p.Approval)
	}
	switch {
	case !slices.Contains(networkOrder, p.Network):
		bad("network", "%q is not one of allow, hosts, deny", p.Network)
	case p.Network == NetworkPolicyHosts && len(p.AllowedHosts) == 0:
		bad("allowed_hosts", "network hosts needs at least one host; use network deny to reach none")
	case p.Network != NetworkPolicyHosts && len(p.AllowedHosts) > 0:
		bad("allowed_hosts", "a list of hosts needs network hosts, not %s", p.Network)
	}
	if p.Sandbox == SandboxScopeUnrestricted && (p.Network == NetworkPolicyDeny || p.Network == NetworkPolicyHosts) {
		bad("network", "%s needs permissions.sandbox local or workspace: nothing enforces network rules in unrestricted", p.Network)
	}
	if len(p.AllowedHosts) > MaxAllowedHosts {
		bad("allowed_hosts", "%d hosts are more than %d", len(p.AllowedHosts), MaxAllowedHosts)
	}
	for i, h := range p.AllowedHosts {
		if _, err := parseHost(h); err != nil {
			bad(fmt.Sprintf("allowed_hosts[%d]", i), "%w", err)
		}
	}
	return errors.Join(errs...)
}

// NeedsKernel reports whether only a kernel sandbox can enforce the permissions. Values that are not known need it.
func (p PermissionConfig) NeedsKernel() bool {
	p = p.Normalize()
	return p.Sandbox != SandboxScopeUnrestricted || p.Network != NetworkPolicyAllow
}

// SandboxNetwork is the network part in the sandbox's terms.
func (p PermissionConfig) SandboxNetwork() sandbox.Network {
	p = p.Normalize()
	return sandbox.Network{Mode: p.Network, Hosts: p.AllowedHosts}
}

// Join gives the effective permissions: on each axis the stricter of request and floor. Two lists of hosts combine to
// what both allow; when that is nothing, the network is deny. A value that is not known counts as the strictest, so
// that a mistake never loosens. Join(p, PermissionConfig{}) is p normalised.
func Join(request, floor PermissionConfig) PermissionConfig {
	r, f := request.Normalize(), floor.Normalize()
	out := PermissionConfig{
		Sandbox:  stricter(scopeOrder, r.Sandbox, f.Sandbox),
		Approval: stricter(approvalOrder, r.Approval, f.Approval),
		Network:  stricter(networkOrder, r.Network, f.Network),
	}
	if out.Network != NetworkPolicyHosts {
		return out
	}
	switch {
	case r.Network != NetworkPolicyHosts:
		out.AllowedHosts = f.AllowedHosts
	case f.Network != NetworkPolicyHosts:
		out.AllowedHosts = r.AllowedHosts
	default:
		out.AllowedHosts = intersectHosts(r.AllowedHosts, f.AllowedHosts)
	}
	if len(out.AllowedHosts) == 0 {
		out.Network, out.AllowedHosts = NetworkPolicyDeny, nil
	}
	return out
}

func stricter[T comparable](order []T, a, b T) T {
	rank := func(v T) int {
		if i := slices.Index(order, v); i >= 0 {
			return i
		}
		return len(order) - 1
	}
	return order[max(rank(a), rank(b))]
}
