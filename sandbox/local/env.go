package local

import (
	"fmt"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
)

// procIDVar is the variable that marks every process of a tree.
const procIDVar = "HARNESS_PROC_ID"

// passed are the host's variables that say where things are and never who someone is.
var passed = []string{
	"TZ", "COLUMNS", "LINES",
	"GOPATH", "GOMODCACHE", "GOCACHE", "GOPROXY", "GOFLAGS", "GOTOOLCHAIN", "GOSUMDB", "GONOSUMDB", "GONOSUMCHECK",
	"GONOPROXY", "GOPRIVATE", "GOROOT", "GOBIN", "GOEXPERIMENT", "CGO_ENABLED", "GOMAXPROCS",
	"npm_config_cache", "npm_config_registry", "npm_config_cafile", "NODE_EXTRA_CA_CERTS", "NVM_DIR", "PNPM_HOME",
	"CARGO_HOME", "RUSTUP_HOME", "JAVA_HOME", "MAVEN_HOME", "GRADLE_USER_HOME", "ANDROID_HOME",
	"PYENV_ROOT", "PIP_INDEX_URL", "PIP_CERT", "PIP_CACHE_DIR", "UV_CACHE_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
	"SSL_CERT_FILE", "SSL_CERT_DIR",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
	"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
}

// hostEnv is what a provider took from the host's environment.
type hostEnv struct {
	vars map[string]string
	// withheld names variables of the list whose values carry credentials.
	withheld []string
	err      error
}

// pickHostEnv builds the environment that all sessions of a provider start from.
func pickHostEnv(environ, extra []string) hostEnv {
	if environ == nil {
		environ = os.Environ()
	}
	host := make(map[string]string, len(environ))
	for _, kv := range environ {
		if k, v, ok := strings.Cut(kv, "="); ok && k != "" {
			host[k] = v
		}
	}
	out := hostEnv{vars: map[string]string{
		"PATH":   cleanPath(host["PATH"]),
		"HOME":   host["HOME"],
		"USER":   host["USER"],
		"LANG":   host["LANG"],
		"TERM":   "dumb",
		"TMPDIR": host["TMPDIR"],
	}}
	if out.vars["HOME"] == "" || out.vars["USER"] == "" {
		if u, err := user.Current(); err == nil {
			setDefault(out.vars, "HOME", u.HomeDir)
			setDefault(out.vars, "USER", u.Username)
		}
	}
	setDefault(out.vars, "HOME", "/")
	setDefault(out.vars, "USER", fmt.Sprint(os.Getuid()))
	setDefault(out.vars, "LANG", "C.UTF-8")
	setDefault(out.vars, "TMPDIR", os.TempDir())

	for _, k := range extra {
		if looksSecret(k) {
			out.err = fmt.Errorf("local.Options.PassEnv: %s looks like a secret; give it by CreateOptions.Env to the sessions that need it", k)
			return out
		}
	}
	for k, v := range host {
		if !strings.HasPrefix(k, "LC_") && !slices.Contains(passed, k) && !slices.Contains(extra, k) {
			continue
		}
		if carriesCredentials(v) {
			out.withheld = append(out.withheld, k)
			continue
		}
		out.vars[k] = v
	}
	slices.Sort(out.withheld)
	return out
}

func setDefault(m map[string]string, k, v string) {
	if m[k] == "" {
		m[k] = v
	}
}

// cleanPath leaves absolute folders only: a relative one would find programs in whatever folder a command works in.
func cleanPath(p string) string {
	var out []string
	for _, dir := range filepath.SplitList(p) {
		if filepath.IsAbs(dir) {
			out = append(out, dir)
		}
	}
	if len(out) == 0 {
		return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	return strings.Join(out, string(filepath.ListSeparator))
}

// looksSecret tells whether a variable's name speaks of a credential.
func looksSecret(name string) bool {
	n := strings.ToUpper(name)
	for _, w := range []string{"KEY", "TOKEN", "SECRET", "PASS", "CRED", "AUTH", "COOKIE", "SESSION", "SIGNATURE", "DSN", "PRIVATE_"} {
		if strings.Contains(n, w) {
			return true
		}
	}
	return false
}

// carriesCredentials finds user information in any URL of a value, as in a proxy's address.
func carriesCredentials(v string) bool {
	if !strings.Contains(v, "@") || !strings.Contains(v, "://") {
		return false
	}
	for _, part := range strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == '|' || r == ' ' }) {
		if !strings.Contains(part, "@") {
			continue
		}
		// What does not parse may hold a password with odd characters, so it is taken to.
		if u, err := url.Parse(part); err != nil || u.User != nil {
			return true
		}
	}
	return false
}

// checkEnv refuses variables that the kernel or the process tree would not take as meant. It never tells a value.
func checkEnv(field string, env map[string]string) error {
	for k, v := range env {
		switch {
		case k == "" || strings.ContainsAny(k, "=\x00"):
			return fmt.Errorf("%s: %q is not a variable's name", field, k)
		case k == procIDVar:
			return fmt.Errorf("%s: %s is reserved", field, k)
		case strings.ContainsRune(v, 0):
			return fmt.Errorf("%s: the value of %s contains a NUL byte", field, k)
		}
	}
	return nil
}

// mergeEnv is the environment of a process: later maps win. The mark comes first, where a scan finds it soonest.
func mergeEnv(mark string, maps ...map[string]string) []string {
	n := 1
	for _, m := range maps {
		n += len(m)
	}
	out := make([]string, 1, n)
	out[0] = procIDVar + "=" + mark
	for i, m := range maps {
	next:
		for k, v := range m {
			for _, later := range maps[i+1:] {
				if _, ok := later[k]; ok {
					continue next
				}
			}
			out = append(out, k+"="+v)
		}
	}
	slices.Sort(out[1:])
	return out
}
