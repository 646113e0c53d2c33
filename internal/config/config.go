package config

import (
	"time"

	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/tool"
)

// Config is the checked configuration of one process. Load makes it; the zero value is not usable.
type Config struct {
	// Addr is the TCP address that the daemon listens on.
	Addr string `koanf:"addr"`
	// StateDir is the absolute path of the folder with the store, artifacts and the local socket.
	StateDir string `koanf:"state_dir"`
	// Workspace is the absolute path of the workspace of runs that name none.
	Workspace string `koanf:"workspace"`
	// AuthDisabled: requests need no key. Only with a loopback Addr.
	AuthDisabled bool `koanf:"auth_disabled"`
	// AllowRemoteUnsandboxed lets the daemon listen beyond loopback although no kernel sandbox holds its runs.
	AllowRemoteUnsandboxed bool `koanf:"allow_remote_unsandboxed"`
	// AllowedHosts are further Host names that requests may carry, beside the loopback names.
	AllowedHosts []string `koanf:"allowed_hosts"`
	// Dev is the development mode of the node.
	Dev bool `koanf:"dev"`
	// Workers is how many segments of runs execute at once; 0 means the engine's default.
	Workers int `koanf:"workers"`

	// Provider and Model serve runs that name none. Provider "fake" serves every model.
	Provider string `koanf:"provider"`
	Model    string `koanf:"model"`
	// MaxSteps and MaxCostUSD bound runs that ask for no bound; 0 means the engine's default, and no bound of money.
	MaxSteps   int     `koanf:"max_steps"`
	MaxCostUSD float64 `koanf:"max_cost_usd"`
	// ApprovalDeadline and QuestionDeadline are how long a person has to answer.
	ApprovalDeadline time.Duration `koanf:"approval_deadline"`
	QuestionDeadline time.Duration `koanf:"question_deadline"`

	// Floor is what every run of this node gets at least.
	Floor tool.PermissionConfig `koanf:"-"`
	// Providers are the model providers in their order, those of the environment last.
	Providers []model.ProviderConfig `koanf:"-"`
	// Proxy is the address of the proxy of providers that have none of their own. It can hold a password.
	Proxy model.Secret `koanf:"-"`
	// ModelRecord and ModelReplay are folders of recorded model traffic, to write or to answer from; at most one is set.
	ModelRecord string `koanf:"model_record"`
	ModelReplay string `koanf:"model_replay"`
	// AutoCompact says when long histories are made shorter.
	AutoCompact AutoCompact `koanf:"auto_compact"`
	// Instructions: AGENTS.md and CLAUDE.md of the workspace are read.
	Instructions bool `koanf:"instructions"`
	// PriceFile is a file with models and prices over the built-in catalogue; empty means none.
	PriceFile string `koanf:"price_file"`

	// LogLevel is debug, info, warn or error.
	LogLevel string `koanf:"log_level"`
	// LogFormat is auto, text or json.
	LogFormat string `koanf:"log_format"`
	// Telemetry is the export of traces and metrics.
	Telemetry Telemetry `koanf:"telemetry"`

	// UserDir is the user's configuration folder, empty where there is none.
	UserDir string `koanf:"-"`
	// Origins names the source of each setting that is not a default, by its key.
	Origins map[string]string `koanf:"-"`
	// Notes say what was found and not used, in whole sentences for people.
	Notes []string `koanf:"-"`
	// Untrusted is the workspace's file when it was ignored because nobody trusted its content.
	Untrusted *WorkspaceFile `koanf:"-"`
}

// AutoCompact says when and how a long history is made shorter by itself.
type AutoCompact struct {
	Enabled bool `koanf:"enabled"`
	// Threshold is the part of the model's window that the history may fill.
	Threshold float64 `koanf:"threshold"`
	// Mode is a tool.CompactMode.
	Mode     tool.CompactMode `koanf:"mode"`
	KeepLast int              `koanf:"keep_last"`
}

// Fake reports whether the scripted provider serves all models.
func (c Config) Fake() bool { return c.Provider == model.TypeFake }

// Error is a value that cannot be used. Source names where it stands: a file with its line, a variable or a flag.
type Error struct {
	Source  string
	Key     string
	Message string
	// Excerpt is the line of a file that is at fault, without its value.
	Excerpt string
}

func (e *Error) Error() string {
	s := e.Source + ": "
	if e.Key != "" {
		s += e.Key + ": "
	}
	s += e.Message
	if e.Excerpt != "" {
		s += "\n  " + e.Excerpt
	}
	return s
}
