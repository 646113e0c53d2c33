package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/harness-go/harness/tool"
)

type kind int

const (
	text kind = iota
	path
	flag
	count
	money
	span
	list
	ratio
)

// kindNames are how help texts and docs call the kinds.
var kindNames = []string{"text", "path", "true or false", "number", "US dollars", "duration", "list", "part of 1"}

// setting is one thing that can be configured. The table below is the only list of them.
type setting struct {
	key       string
	env       string
	flag      string
	kind      kind
	workspace bool // a trusted file of a workspace may set it
	secret    bool // the value is never shown
	check     func(v any) error
	help      string
}

func (s setting) typeName() string { return kindNames[s.kind] }

// Setting describes a setting for help texts and docs.
type Setting struct {
	Key, Env, Flag, Type, Help string
	// Workspace: the file of a workspace may set it.
	Workspace bool
}

const maxDeadline = 366 * 24 * time.Hour

var settings = []setting{
	{key: "addr", env: "HARNESS_ADDR", flag: "addr", check: checkAddr, help: "address to listen on"},
	{key: "state_dir", env: "HARNESS_STATE_DIR", flag: "state-dir", kind: path, help: "folder of the store"},
	{key: "workspace", env: "HARNESS_WORKSPACE", flag: "workspace", kind: path, help: "workspace of runs that name none"},
	{key: "auth_disabled", env: "HARNESS_AUTH_DISABLED", flag: "auth-disabled", kind: flag, help: "serve without API keys, on loopback only"},
	{key: "allow_remote_unsandboxed", env: "HARNESS_ALLOW_REMOTE_UNSANDBOXED", flag: "allow-remote-unsandboxed", kind: flag,
		help: "listen beyond loopback although no kernel sandbox holds the runs"},
	{key: "allowed_hosts", env: "HARNESS_ALLOWED_HOSTS", flag: "allowed-hosts", kind: list, check: checkHosts, help: "further Host names of requests"},
	{key: "dev", env: "HARNESS_DEV", flag: "dev", kind: flag, help: "development mode: runs say that there is no sandbox"},
	{key: "workers", env: "HARNESS_WORKERS", flag: "workers", kind: count, check: atMost(10_000), help: "run segments that execute at once"},
	{key: "provider", env: "HARNESS_PROVIDER", flag: "provider", workspace: true, check: checkName, help: "model provider of runs that name none; fake needs no key"},
	{key: "model", env: "HARNESS_MODEL", flag: "model", workspace: true, check: checkName, help: "model of runs that name none"},
	{key: "max_steps", env: "HARNESS_MAX_STEPS", flag: "max-steps", kind: count, workspace: true, check: atMost(100_000), help: "steps of a run"},
	{key: "max_cost_usd", env: "HARNESS_MAX_COST_PER_RUN_USD", flag: "max-cost", kind: money, workspace: true, help: "money of a run, in US dollars"},
	{key: "approval_deadline", env: "HARNESS_APPROVAL_DEADLINE", flag: "approval-deadline", kind: span, help: "time to answer an approval"},
	{key: "question_deadline", env: "HARNESS_QUESTION_DEADLINE", flag: "question-deadline", kind: span, help: "time to answer a question"},
	{key: "floor.sandbox", env: "HARNESS_FLOOR_SANDBOX", flag: "floor-sandbox", help: "strictest sandbox that runs get at least",
		check: oneOf(tool.SandboxScopeUnrestricted, tool.SandboxScopeLocal, tool.SandboxScopeWorkspace)},
	{key: "floor.network", env: "HARNESS_FLOOR_NETWORK", flag: "floor-network", help: "network rule that runs get at least",
		check: oneOf(tool.NetworkPolicyAllow, tool.NetworkPolicyHosts, tool.NetworkPolicyDeny)},
	{key: "floor.approval", env: "HARNESS_FLOOR_APPROVAL", flag: "floor-approval", help: "approval policy that runs get at least",
		check: oneOf(tool.ApprovalPolicyNone, tool.ApprovalPolicyDestructive, tool.ApprovalPolicyAll)},
	{key: "proxy", env: "HARNESS_PROXY", secret: true, check: checkProxy,
		help: "proxy of all model providers that have none of their own: http://, https:// or socks5://; HTTP_PROXY does not count"},
	{key: "model_record", env: "HARNESS_MODEL_RECORD", flag: "model-record", kind: path, help: "folder to record the model traffic in"},
	{key: "model_replay", env: "HARNESS_MODEL_REPLAY", flag: "model-replay", kind: path, help: "folder to answer model calls from, without a network"},
	{key: "auto_compact.enabled", env: "HARNESS_AUTO_COMPACT", flag: "auto-compact", kind: flag, help: "make long histories shorter before they fill the model's window"},
	{key: "auto_compact.threshold", env: "HARNESS_AUTO_COMPACT_THRESHOLD", kind: ratio, help: "how full the window is then"},
	{key: "auto_compact.mode", env: "HARNESS_AUTO_COMPACT_MODE", check: oneOf(tool.CompactStrip, tool.CompactSummarize, tool.CompactHybrid),
		help: "cut old outputs out (strip), summarise old messages (summarize), or the second where the first is not enough (hybrid)"},
	{key: "auto_compact.keep_last", env: "HARNESS_AUTO_COMPACT_KEEP_LAST", kind: count, check: between(2, 1000), help: "newest messages that stay as they are"},
	{key: "instructions", env: "HARNESS_INSTRUCTIONS", flag: "instructions", kind: flag, help: "read AGENTS.md and CLAUDE.md of the workspace"},
	{key: "price_file", env: "HARNESS_PRICE_FILE", flag: "price-file", kind: path, help: "JSON file with models and prices over the catalogue"},
	{key: "log_level", env: "HARNESS_LOG_LEVEL", flag: "log-level", check: oneOf("debug", "info", "warn", "error"), help: "least level of log lines"},
	{key: "log_format", env: "HARNESS_LOG_FORMAT", flag: "log-format", check: oneOf("auto", "text", "json"), help: "form of log lines; auto: text on a terminal, JSON elsewhere"},
	{key: "telemetry.enabled", env: "HARNESS_TELEMETRY", flag: "telemetry", kind: flag, help: "export traces and metrics over OTLP; the OTEL_* variables say how"},
	{key: "telemetry.endpoint", env: "HARNESS_TELEMETRY_ENDPOINT", check: checkEndpoint, help: "address of the collector, in the place of OTEL_EXPORTER_OTLP_ENDPOINT"},
	{key: "telemetry.content", env: "HARNESS_TELEMETRY_CONTENT", kind: flag, help: "put prompts, arguments and outputs into traces"},
	{key: "database_url", env: "HARNESS_DATABASE_URL", check: noPostgres, help: "not built yet"},
}

// Settings lists every setting that has a name in the environment.
func Settings() []Setting {
	out := make([]Setting, 0, len(settings))
	for _, s := range settings {
		out = append(out, Setting{Key: s.key, Env: s.env, Flag: s.flag, Type: s.typeName(), Help: s.help, Workspace: s.workspace})
	}
	return out
}

func settingByKey(key string) (setting, bool) {
	i := slices.IndexFunc(settings, func(s setting) bool { return s.key == key })
	if i < 0 {
		return setting{}, false
	}
	return settings[i], true
}

// parse reads the text of a variable or a flag.
func (s setting) parse(v string) (any, error) {
	switch s.kind {
	case flag:
		b, err := strconv.ParseBool(v)
		if err != nil {
			return nil, fmt.Errorf("%s is neither true nor false", shown(v))
		}
		return b, nil
	case count:
		n, err := strconv.Atoi(v)
		if err != nil {
			return nil, fmt.Errorf("%s is not a whole number", shown(v))
		}
		return s.checked(n)
	case money, ratio:
		f, err := strconv.ParseFloat(v, 64)
		if err != nil {
			return nil, fmt.Errorf("%s is not a number", shown(v))
		}
		return s.checked(f)
	case span:
		d, err := time.ParseDuration(v)
		if err != nil {
			return nil, fmt.Errorf(`%s is not a duration like "90m" or "72h"`, shown(v))
		}
		return s.checked(d)
	case list:
		var items []string
		for item := range strings.SplitSeq(v, ",") {
			if item = strings.TrimSpace(item); item != "" {
				items = append(items, item)
			}
		}
		return s.checked(items)
	}
	return s.checked(v)
}

// accept takes a value of a YAML file.
func (s setting) accept(v any) (any, error) {
	switch s.kind {
	case flag:
		if b, ok := v.(bool); ok {
			return b, nil
		}
		return nil, errors.New("must be true or false")
	case count:
		switch n := v.(type) {
		case uint64:
			if n <= math.MaxInt32 {
				return s.checked(int(n))
			}
		case int64:
			return s.checked(int(n))
		case int:
			return s.checked(n)
		}
		return nil, errors.New("must be a whole number")
	case money, ratio:
		switch n := v.(type) {
		case float64:
			return s.checked(n)
		case uint64:
			return s.checked(float64(n))
		case int64:
			return s.checked(float64(n))
		}
		return nil, errors.New("must be a number")
	case list:
		items, ok := v.([]any)
		if !ok {
			return nil, errors.New("must be a list")
		}
		var texts []string
		for _, it := range items {
			t, ok := it.(string)
			if !ok {
				return nil, errors.New("must be a list of texts")
			}
			texts = append(texts, t)
		}
		return s.checked(texts)
	}
	t, ok := v.(string)
	if !ok {
		return nil, errors.New("must be text; put it into quotes")
	}
	return s.parse(t)
}

func (s setting) checked(v any) (any, error) {
	switch n := v.(type) {
	case int:
		if n < 0 {
			return nil, fmt.Errorf("%d is below 0", n)
		}
	case float64:
		if n < 0 || math.IsNaN(n) || math.IsInf(n, 0) {
			return nil, errors.New("must be a number that is 0 or more")
		}
		if s.kind == ratio && (n == 0 || n > 1) {
			return nil, fmt.Errorf("%v is not a part of 1, such as 0.8", n)
		}
	case time.Duration:
		if n <= 0 || n > maxDeadline {
			return nil, fmt.Errorf("%s is not between 1ns and %s", n, maxDeadline)
		}
	case string:
		if strings.ContainsFunc(n, unicode.IsControl) {
			return nil, errors.New("holds a control character")
		}
	}
	if s.check != nil {
		if err := s.check(v); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// shown quotes a value for an error message, cut so that a pasted file does not fill the screen.
func shown(v string) string {
	if len(v) > 60 {
		v = v[:60] + "…"
	}
	return strconv.Quote(v)
}

func atMost(limit int) func(any) error {
	return func(v any) error {
		if n, ok := v.(int); ok && n > limit {
			return fmt.Errorf("%d is above %d", n, limit)
		}
		return nil
	}
}

func between(low, high int) func(any) error {
	return func(v any) error {
		if n, ok := v.(int); ok && (n < low || n > high) {
			return fmt.Errorf("%d is not between %d and %d", n, low, high)
		}
		return nil
	}
}

func checkEndpoint(v any) error {
	if v.(string) == "" {
		return nil
	}
	return checkURL(v.(string))
}

func oneOf[T ~string](values ...T) func(any) error {
	return func(v any) error {
		if slices.Contains(values, T(v.(string))) {
			return nil
		}
		names := make([]string, len(values))
		for i, n := range values {
			names[i] = string(n)
		}
		return fmt.Errorf("%s is not one of %s", shown(v.(string)), strings.Join(names, ", "))
	}
}

func checkName(v any) error {
	s := v.(string)
	if strings.ContainsFunc(s, unicode.IsSpace) || len(s) > 200 {
		return fmt.Errorf("%s holds blanks or is longer than 200 bytes", shown(s))
	}
	return nil
}

func checkAddr(v any) error {
	addr := v.(string)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf(`%s is not host:port, like "127.0.0.1:8080"`, shown(addr))
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%s has no port between 0 and 65535", shown(addr))
	}
	return nil
}

func checkHosts(v any) error {
	for _, h := range v.([]string) {
		if h == "" || strings.ContainsAny(h, "/ \t*@") {
			return fmt.Errorf("%s is not a host name", shown(h))
		}
	}
	return nil
}

// noPostgres refuses the setting without showing its value, which can hold a password.
func noPostgres(v any) error {
	if v.(string) == "" {
		return nil
	}
	return errors.New("a Postgres store is not built yet; remove the setting to use the SQLite file of the state directory")
}

// Loopback reports whether an address of the form host:port is reachable from this machine only. A name other than
// localhost is taken for reachable.
func Loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

func absolute(dir, p string) string {
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	return filepath.Join(dir, p)
}
