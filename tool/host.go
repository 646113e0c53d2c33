package tool

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// hostRule is one entry of PermissionConfig.AllowedHosts.
type hostRule struct {
	name string // lower case, without the "*." of a wildcard; an IP address in its canonical form
	wild bool
	port int // 0: the ports 80 and 443
}

func (r hostRule) String() string {
	s := r.name
	if strings.Contains(s, ":") { // IPv6
		s = "[" + s + "]"
	}
	if r.wild {
		s = "*." + s
	}
	if r.port != 0 {
		s += ":" + strconv.Itoa(r.port)
	}
	return s
}

// parseHost reads "name", "*.name", "address" or one of them with ":port".
func parseHost(s string) (hostRule, error) {
	bad := func(why string) (hostRule, error) {
		return hostRule{}, fmt.Errorf("%q is not a host: %s", s, why)
	}
	var r hostRule
	name := strings.ToLower(s)
	switch {
	case name == "":
		return bad("it is empty")
	case strings.Contains(name, "://") || strings.Contains(name, "/"):
		return bad("write the name alone, without scheme and path")
	}
	if i := strings.LastIndexByte(name, ':'); i >= 0 && (strings.Count(name, ":") == 1 || strings.HasPrefix(name, "[") && name[i-1] == ']') {
		port, err := strconv.ParseUint(name[i+1:], 10, 16)
		if err != nil || port == 0 {
			return bad("the port must be a number from 1 to 65535")
		}
		r.port, name = int(port), name[:i]
	}
	if strings.HasPrefix(name, "[") && strings.HasSuffix(name, "]") {
		name = name[1 : len(name)-1]
		if !strings.Contains(name, ":") {
			return bad("only IPv6 addresses stand in brackets")
		}
	}
	if addr, err := netip.ParseAddr(name); err == nil {
		if addr.Zone() != "" {
			return bad("an address with a zone is not supported")
		}
		r.name = addr.Unmap().String()
		return r, nil
	}
	if rest, ok := strings.CutPrefix(name, "*."); ok {
		r.wild, name = true, rest
	}
	name = strings.TrimSuffix(name, ".")
	if err := checkHostName(name); err != nil {
		return bad(err.Error())
	}
	r.name = name
	return r, nil
}

func checkHostName(name string) error {
	if len(name) == 0 || len(name) > 253 {
		return errors.New("a name has 1 to 253 characters; to reach everything use network allow")
	}
	numeric := true
	for label := range strings.SplitSeq(name, ".") {
		if len(label) == 0 || len(label) > 63 {
			return errors.New("each part of a name has 1 to 63 characters")
		}
		numeric = strings.Trim(label, "0123456789") == ""
		for _, c := range []byte(label) {
			if c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
				return errors.New(`only letters, digits, "-" and "_" and one leading "*." are allowed; write other names in punycode`)
			}
		}
	}
	if numeric { // "127.1" and the like would be read as an address by some resolvers
		return errors.New("an address must be written in full")
	}
	return nil
}

// meet gives the hosts that both rules allow.
func (r hostRule) meet(o hostRule) (hostRule, bool) {
	out := r
	switch {
	case r.name == o.name && r.wild == o.wild:
	case o.wild && strings.HasSuffix(r.name, "."+o.name):
	case r.wild && strings.HasSuffix(o.name, "."+r.name):
		out.name, out.wild = o.name, o.wild
	default:
		return hostRule{}, false
	}
	standard := func(port int) bool { return port == 0 || port == 80 || port == 443 }
	switch {
	case r.port == o.port:
	case r.port == 0 && standard(o.port):
		out.port = o.port
	case o.port == 0 && standard(r.port):
	default:
		return hostRule{}, false
	}
	return out, true
}

// intersectHosts gives what both lists allow, sorted. Entries that are not valid allow nothing.
func intersectHosts(a, b []string) []string {
	var out []string
	for _, x := range a {
		rx, err := parseHost(x)
		if err != nil {
			continue
		}
		for _, y := range b {
			ry, err := parseHost(y)
			if err != nil {
				continue
			}
			if m, ok := rx.meet(ry); ok {
				out = append(out, m.String())
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
