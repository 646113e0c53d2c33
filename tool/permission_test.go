package tool

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestAnOmittedBlockAndEmptyAxesAreTheDefault(t *testing.T) {
	want := DefaultPermissionConfig()
	if !reflect.DeepEqual(want, PermissionConfig{Sandbox: "unrestricted", Approval: "none", Network: "allow"}) {
		t.Fatalf("default = %+v", want)
	}
	for _, body := range []string{`{}`, `{"sandbox":"","approval":"","network":""}`, `{"network":"allow","allowed_hosts":[]}`} {
		var p PermissionConfig
		if err := json.Unmarshal([]byte(body), &p); err != nil {
			t.Fatal(err)
		}
		if err := p.Validate(); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		if got := p.Normalize(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s = %+v", body, got)
		}
		if p.NeedsKernel() {
			t.Errorf("%s needs a kernel", body)
		}
	}
}

// axes are every value of each axis, with one that is not known.
var (
	testScopes    = []SandboxScope{"", "unrestricted", "local", "workspace", "jail"}
	testApprovals = []ApprovalPolicy{"", "none", "destructive", "all", "some"}
	testNetworks  = []NetworkPolicy{"", "allow", "hosts", "deny", "off"}
)

func rankOf[T comparable](order []T, v, zero T) int {
	if v == zero {
		return 0
	}
	if i := slices.Index(order, v); i >= 0 {
		return i
	}
	return len(order) - 1
}

// Fault 22: one resolver over every combination of request and floor. On each axis the answer is the stricter one,
// and it is never looser than either side.
func TestJoinIsTheStricterOnEachAxisForEveryRequestAndFloor(t *testing.T) {
	hostLists := map[NetworkPolicy][2][]string{"hosts": {{"a.example.com", "b.example.com"}, {"b.example.com", "c.example.com"}}}
	n := 0
	for _, rs := range testScopes {
		for _, ra := range testApprovals {
			for _, rn := range testNetworks {
				for _, fs := range testScopes {
					for _, fa := range testApprovals {
						for _, fn := range testNetworks {
							r := PermissionConfig{Sandbox: rs, Approval: ra, Network: rn, AllowedHosts: hostLists[rn][0]}
							f := PermissionConfig{Sandbox: fs, Approval: fa, Network: fn, AllowedHosts: hostLists[fn][1]}
							got := Join(r, f)
							want := PermissionConfig{
								Sandbox:  scopeOrder[max(rankOf(scopeOrder, rs, ""), rankOf(scopeOrder, fs, ""))],
								Approval: approvalOrder[max(rankOf(approvalOrder, ra, ""), rankOf(approvalOrder, fa, ""))],
								Network:  networkOrder[max(rankOf(networkOrder, rn, ""), rankOf(networkOrder, fn, ""))],
							}
							if want.Network == NetworkPolicyHosts {
								switch {
								case rn == "hosts" && fn == "hosts":
									want.AllowedHosts = []string{"b.example.com"}
								case rn == "hosts":
									want.AllowedHosts = r.AllowedHosts
								default:
									want.AllowedHosts = f.AllowedHosts
								}
							}
							if !reflect.DeepEqual(got, want) {
								t.Fatalf("Join(%+v, %+v) = %+v, want %+v", r, f, got, want)
							}
							// What two valid sides give is valid. (A floor with network rules has a kernel scope.)
							if r.Validate() == nil && f.Validate() == nil {
								if err := got.Validate(); err != nil {
									t.Fatalf("Join(%+v, %+v) = %+v: %v", r, f, got, err)
								}
							}
							n++
						}
					}
				}
			}
		}
	}
	if n != 5*5*5*5*5*5 {
		t.Errorf("%d combinations", n)
	}
}

func TestHostListsMeetAndAnEmptyMeetingIsDeny(t *testing.T) {
	for _, tc := range []struct{ a, b, want string }{
		{"api.example.com", "api.example.com", "api.example.com"},
		{"API.Example.COM.", "api.example.com", "api.example.com"},
		{"*.example.org", "api.example.org", "api.example.org"},
		{"*.example.org", "example.org", ""}, // a wildcard is not the name itself
		{"*.example.org", "*.a.example.org", "*.a.example.org"},
		{"*.example.org", "*.example.org", "*.example.org"},
		{"*.example.org", "badexample.org", ""},
		{"host.example", "host.example:443", "host.example:443"}, // no port: 80 and 443
		{"host.example", "host.example:8443", ""},
		{"host.example:8443", "host.example:8443", "host.example:8443"},
		{"host.example:80", "host.example:443", ""},
		{"*.example.org:8443", "a.example.org:8443", "a.example.org:8443"},
		{"*.example.org", "a.example.org:8443", ""},
		{"a.example.org b.example.org", "*.example.org c.test", "a.example.org b.example.org"},
		{"10.0.0.1", "10.0.0.1:80", "10.0.0.1:80"},
		{"[2001:DB8::1]:443", "2001:db8:0::1", "[2001:db8::1]:443"},
		{"a.test", "b.test", ""},
	} {
		for _, sides := range [][2]string{{tc.a, tc.b}, {tc.b, tc.a}} {
			got := Join(hostsConfig(sides[0]), hostsConfig(sides[1]))
			if strings.Join(got.AllowedHosts, " ") != tc.want {
				t.Errorf("%s and %s = %v, want %q", sides[0], sides[1], got.AllowedHosts, tc.want)
			}
			if (tc.want == "") != (got.Network == NetworkPolicyDeny) {
				t.Errorf("%s and %s: network %s", sides[0], sides[1], got.Network)
			}
		}
	}
}

func hostsConfig(list string) PermissionConfig {
	return PermissionConfig{Sandbox: SandboxScopeWorkspace, Network: NetworkPolicyHosts, AllowedHosts: strings.Fields(list)}
}

func TestValidateNamesTheField(t *testing.T) {
	many := make([]string, MaxAllowedHosts+1)
	for i := range many {
		many[i] = fmt.Sprintf("h%d.test", i)
	}
	for _, tc := range []struct {
		p    PermissionConfig
		want []string // nothing: valid
	}{
		{PermissionConfig{Sandbox: "workspace", Approval: "destructive"}, nil},
		{PermissionConfig{Sandbox: "local", Network: "deny"}, nil},
		{hostsConfig("api.example.com *.example.org host:8443"), nil},
		{PermissionConfig{Sandbox: "jail"}, []string{`permissions.sandbox: "jail"`}},
		{PermissionConfig{Approval: "maybe"}, []string{`permissions.approval: "maybe"`}},
		{PermissionConfig{Network: "off"}, []string{`permissions.network: "off"`}},
		{PermissionConfig{Network: "deny"}, []string{"permissions.network: deny needs permissions.sandbox local or workspace"}},
		{PermissionConfig{Network: "hosts", AllowedHosts: []string{"a.test"}}, []string{"permissions.network: hosts needs"}},
		{PermissionConfig{Sandbox: "local", Network: "hosts"}, []string{"permissions.allowed_hosts: network hosts needs"}},
		{PermissionConfig{AllowedHosts: []string{"a.test"}}, []string{"permissions.allowed_hosts: a list of hosts needs network hosts"}},
		{PermissionConfig{Sandbox: "local", Network: "deny", AllowedHosts: []string{"a.test"}}, []string{"permissions.allowed_hosts:"}},
		{hostsConfig("good.test https://x.test/"), []string{`permissions.allowed_hosts[1]: "https://x.test/"`}},
		{PermissionConfig{Sandbox: "x", Approval: "y", Network: "z"}, []string{"permissions.sandbox", "permissions.approval", "permissions.network"}},
		{hostsConfig(strings.Join(many, " ")), []string{"permissions.allowed_hosts: 257 hosts"}},
	} {
		err := tc.p.Validate()
		if (err == nil) != (len(tc.want) == 0) {
			t.Errorf("%+v: %v", tc.p, err)
			continue
		}
		for _, w := range tc.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%+v: %q does not say %q", tc.p, err, w)
			}
		}
	}
}

func TestHostsThatAreNoHostsAreRefused(t *testing.T) {
	for _, h := range []string{
		"", "*", "*.", "a..b", "http://a.test", "a.test/path", "a b.test", "a.*.test", "**.test", "a.test:0", "a.test:x",
		"a.test:70000", "x\x00.test", "ü.test", strings.Repeat("a", 64) + ".test", strings.Repeat("a.", 130) + "test",
		"127.1", "*.1.2.3.4", "[a.test]", "fe80::1%eth0", "[::1", ":80",
	} {
		if _, err := parseHost(h); err == nil {
			t.Errorf("%q was accepted", h)
		}
	}
}

func FuzzParseHost(f *testing.F) {
	for _, s := range []string{"a.test", "*.a.test:8443", "[::1]:443", "::1", "10.0.0.1", "a.test.", "[", ":", "*"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := parseHost(s)
		if err != nil {
			return
		}
		again, err := parseHost(r.String())
		if err != nil || again != r {
			t.Fatalf("%q -> %q -> %+v, %v", s, r.String(), again, err)
		}
		if m, ok := r.meet(r); !ok || m != r {
			t.Fatalf("%q does not meet itself: %+v", s, m)
		}
	})
}

// allows is the meaning of a rule: does it let this name and port through?
func allows(list []string, name string, port int) bool {
	for _, h := range list {
		r, err := parseHost(h)
		if err != nil {
			continue
		}
		host := name == r.name
		if r.wild {
			host = strings.HasSuffix(name, "."+r.name)
		}
		if host && (port == r.port || r.port == 0 && (port == 80 || port == 443)) {
			return true
		}
	}
	return false
}

func TestAJoinedListAllowsExactlyWhatBothAllow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule := rapid.SampledFrom([]string{
			"a.test", "b.test", "*.test", "*.a.test", "x.a.test", "a.test:443", "a.test:8443", "*.test:8443", "*.a.test:80", "x.a.test:80",
		})
		a, b := rapid.SliceOfN(rule, 1, 4).Draw(t, "a"), rapid.SliceOfN(rule, 1, 4).Draw(t, "b")
		joined := intersectHosts(a, b)
		for _, name := range []string{"test", "a.test", "b.test", "x.a.test", "y.x.a.test", "aa.test"} {
			for _, port := range []int{80, 443, 8443, 22} {
				want := allows(a, name, port) && allows(b, name, port)
				if got := allows(joined, name, port); got != want {
					t.Fatalf("%v and %v = %v: %s:%d is %v, want %v", a, b, joined, name, port, got, want)
				}
			}
		}
	})
}

func TestWhatNeedsAKernel(t *testing.T) {
	for _, tc := range []struct {
		p    PermissionConfig
		want bool
	}{
		{PermissionConfig{}, false},
		{PermissionConfig{Approval: "all"}, false},
		{PermissionConfig{Sandbox: "local"}, true},
		{PermissionConfig{Sandbox: "workspace"}, true},
		{PermissionConfig{Sandbox: "local", Network: "deny"}, true},
		{PermissionConfig{Network: "deny"}, true},
		{PermissionConfig{Sandbox: "unheard of"}, true},
	} {
		if got := tc.p.NeedsKernel(); got != tc.want {
			t.Errorf("%+v: %v", tc.p, got)
		}
	}
}

func TestApprovalPolicyAsksByKind(t *testing.T) {
	for _, k := range []Kind{KindReadonly, KindEdit, KindBash, KindNetwork, KindAgent, KindAsk, KindOther} {
		for _, tc := range []struct {
			p    ApprovalPolicy
			want bool
		}{{"", false}, {"none", false}, {"destructive", k.Mutating()}, {"all", true}, {"unheard of", true}} {
			if got := tc.p.Asks(k); got != tc.want {
				t.Errorf("%s asks for %s: %v", tc.p, k, got)
			}
		}
	}
}
