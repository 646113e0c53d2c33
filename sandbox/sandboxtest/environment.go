package sandboxtest

import (
	"strings"
	"testing"

	"github.com/harness-go/harness/sandbox"
)

const hostSecret = "sk-host-5ecret-value"

var environmentTests = []test{
	{
		name: "no secret of the host reaches a process",
		host: func(t *testing.T) {
			for _, k := range []string{"OPENAI_API_KEY", "ANTHROPIC_AUTH_TOKEN", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "MY_OWN_VARIABLE", "SSH_AUTH_SOCK"} {
				t.Setenv(k, hostSecret)
			}
			t.Setenv("GOPROXY", "https://user:"+hostSecret+"@proxy.example,direct")
			t.Setenv("HTTPS_PROXY", "http://user:"+hostSecret+"@proxy.example:3128")
		},
		fn: func(b *trial) {
			s := b.open()
			if out := b.sh(s, "env; tr '\\0' '\\n' < /proc/self/environ 2>/dev/null; set"); strings.Contains(out, hostSecret) {
				b.Errorf("the environment holds the host's secret:\n%s", out)
			}
		},
	},
	{name: "the environment has what programs need", fn: func(b *trial) {
		vars := environ(b.sh(b.open(), "env"))
		for _, k := range []string{"PATH", "HOME", "USER", "LANG", "TMPDIR"} {
			if vars[k] == "" {
				b.Errorf("%s is not set", k)
			}
		}
		if vars["TERM"] != "dumb" {
			b.Errorf("TERM is %q", vars["TERM"])
		}
	}},
	{name: "the session's and the command's variables are added, the command's win", fn: func(b *trial) {
		s := b.open(func(o *sandbox.CreateOptions) {
			o.Env = map[string]string{"A": "session", "B": "session", "TERM": "vt100"}
		})
		res, err := s.Run(b.ctx(), sandbox.CommandOptions{Command: `printf '%s,%s,%s,%s' "$A" "$B" "$C" "$TERM"`, Env: map[string]string{"B": "command", "C": "a b=c\nd"}})
		if want := "session,command,a b=c\nd,vt100"; err != nil || res.Stdout != want {
			b.Errorf("got %q, %v; want %q", res.Stdout, err, want)
		}
		if out := b.sh(s, "echo $B$C"); out != "session\n" {
			b.Errorf("a command's variable stayed: %q", out)
		}
	}},
	{name: "a variable that cannot be is refused by name, not by value", fn: func(b *trial) {
		for _, bad := range []map[string]string{{"": "v4lue"}, {"A=B": "v4lue"}, {"A": "v4lue\x00"}} {
			_, err := b.create(func(o *sandbox.CreateOptions) { o.Env = bad })
			_, rerr := b.open().Run(b.ctx(), sandbox.CommandOptions{Command: ":", Env: bad})
			for _, err := range []error{err, rerr} {
				if err == nil || strings.Contains(err.Error(), "v4lue") {
					b.Errorf("%q: %v", bad, err)
				}
			}
		}
	}},
}

func environ(out string) map[string]string {
	vars := map[string]string{}
	for line := range strings.Lines(out) {
		if k, v, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
			vars[k] = v
		}
	}
	return vars
}
