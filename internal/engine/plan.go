package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/store"
	"github.com/harness-go/harness/tool"
)

// Plan is a request with every default filled in and every limit resolved. It is kept with the run and is all that a
// segment needs to know of the request.
type Plan struct {
	Harness           string            `json:"harness"`
	Model             string            `json:"model,omitempty"`
	ProviderName      string            `json:"provider_name,omitempty"`
	FallbackProviders []string          `json:"fallback_providers,omitempty"`
	ReasoningEffort   string            `json:"reasoning_effort,omitempty"`
	SystemPrompt      string            `json:"system_prompt,omitempty"`
	AgentID           string            `json:"agent_id,omitempty"`
	Workspace         string            `json:"workspace"`
	AllowedTools      []string          `json:"allowed_tools,omitempty"`
	DeniedTools       []string          `json:"denied_tools,omitempty"`
	Permissions       event.Permissions `json:"permissions"`
	MaxSteps          int               `json:"max_steps,omitempty"`
	MaxCostUSD        float64           `json:"max_cost_usd,omitempty"`
	MaxTokensTotal    int64             `json:"max_tokens_total,omitempty"`
	TimeoutSeconds    int               `json:"timeout_seconds,omitempty"`
	ApprovalDeadline  string            `json:"approval_deadline"`
	OutputSchema      json.RawMessage   `json:"output_schema,omitempty"`
	Attachments       []AttachedFile    `json:"attachments,omitempty"`
	Metadata          map[string]string `json:"metadata,omitempty"`
	// Compact is the compaction that comes before the first model call.
	Compact *native.CompactRequest `json:"compact,omitempty"`
	Trace   Trace                  `json:"trace,omitzero"`
}

// Trace says where a run belongs in distributed traces. It is kept with the run, which may go on in days.
type Trace struct {
	// Parent is the W3C trace context of who asked for the run; empty: none.
	Parent string `json:"parent,omitempty"`
	// Previous is the Parent of the run that this one continues.
	Previous string `json:"previous,omitempty"`
}

// Bounds of a request.
const (
	maxPromptBytes    = 512 << 10
	maxTimeoutSeconds = 7 * 24 * 3600
	maxDeadline       = 30 * 24 * time.Hour
	maxListEntries    = 256
)

var (
	idRE = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	// laterHarnesses are adapters that the project names and has not built yet.
	laterHarnesses = []string{"claude-code", "claude-managed", "codex", "gemini", "opencode", "goose", "claude-agent-acp", "codex-acp"}
)

// Plan decodes the plan of a run.
func (e *Engine) Plan(r store.Run) (Plan, error) {
	var p Plan
	if err := json.Unmarshal(r.Request, &p); err != nil {
		return Plan{}, fmt.Errorf("engine: plan of run %s: %w", r.ID, err)
	}
	return p, nil
}

// plan checks a request and fills it in. Capabilities that are not built are refused with their name, never accepted
// and ignored.
func (e *Engine) plan(p Principal, r RunRequest) (Plan, error) {
	if err := checkText(r); err != nil {
		return Plan{}, err
	}
	if err := unbuilt(r); err != nil {
		return Plan{}, err
	}
	pl := Plan{
		Harness: r.Harness, Model: r.Model, ProviderName: r.ProviderName, FallbackProviders: r.FallbackProviders,
		ReasoningEffort: r.ReasoningEffort, SystemPrompt: r.SystemPrompt, AgentID: r.AgentID, Workspace: r.Workspace,
		AllowedTools: r.AllowedTools, DeniedTools: r.DeniedTools, MaxSteps: r.MaxSteps, MaxCostUSD: r.MaxCostUSD,
		MaxTokensTotal: r.MaxTokensTotal, TimeoutSeconds: r.TimeoutSeconds, OutputSchema: r.OutputSchema, Metadata: r.Metadata,
		Trace: Trace{Parent: r.Traceparent},
	}
	if pl.Harness == "" {
		pl.Harness = "native"
	}
	if e.o.Harnesses[pl.Harness] == nil {
		if slices.Contains(laterHarnesses, pl.Harness) {
			return Plan{}, notBuilt("harness", "harness %s is not available on this node", pl.Harness)
		}
		return Plan{}, invalid("harness", "harness %q is unknown; available: native", pl.Harness)
	}
	if err := e.limits(&pl, r); err != nil {
		return Plan{}, err
	}
	if err := e.place(&pl); err != nil {
		return Plan{}, err
	}
	if err := e.permissions(p, &pl, r.Permissions); err != nil {
		return Plan{}, err
	}
	if pl.Model == "" {
		pl.Model = e.o.Defaults.Model
	}
	if pl.ProviderName == "" && r.Model == "" {
		pl.ProviderName = e.o.Defaults.Provider
	}
	return pl, e.checkModel(pl)
}

func checkText(r RunRequest) error {
	switch {
	case strings.TrimSpace(r.Prompt) == "":
		return invalid("prompt", "must not be empty")
	case len(r.Prompt) > maxPromptBytes:
		return invalid("prompt", "has %d bytes; at most %d are taken", len(r.Prompt), maxPromptBytes)
	case len(r.SystemPrompt) > maxPromptBytes:
		return invalid("system_prompt", "has %d bytes; at most %d are taken", len(r.SystemPrompt), maxPromptBytes)
	case r.ConversationID != "" && (len(r.ConversationID) > 128 || !idRE.MatchString(r.ConversationID)):
		return invalid("conversation_id", "must match %s and have at most 128 characters", idRE)
	case r.ConversationID == "search" || r.ConversationID == "cleanup":
		return invalid("conversation_id", "%s is a word of the API's paths: choose another one", r.ConversationID)
	case len(r.AllowedTools) > maxListEntries:
		return invalid("allowed_tools", "has more than %d entries", maxListEntries)
	case len(r.DeniedTools) > maxListEntries:
		return invalid("denied_tools", "has more than %d entries", maxListEntries)
	case len(r.Metadata) > 64:
		return invalid("metadata", "has more than 64 entries")
	}
	return nil
}

func unbuilt(r RunRequest) error {
	set := func(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
	switch {
	case r.Agent != "":
		return notBuilt("agent", "named agents are not available on this node")
	case r.Profile != "":
		return notBuilt("profile", "profiles are not available on this node")
	case set(r.MCPServers):
		return notBuilt("mcp_servers", "MCP servers are not available on this node")
	}
	return nil
}

func (e *Engine) limits(pl *Plan, r RunRequest) error {
	switch {
	case r.MaxSteps < 0:
		return invalid("max_steps", "must not be negative; 0 is the node's setting")
	case r.MaxCostUSD < 0:
		return invalid("max_cost_usd", "must not be negative; 0 is the node's setting")
	case r.MaxTokensTotal < 0:
		return invalid("max_tokens_total", "must not be negative; 0 is unbounded")
	case r.TimeoutSeconds < 0 || r.TimeoutSeconds > maxTimeoutSeconds:
		return invalid("timeout_seconds", "must be 0 (unbounded) to %d", maxTimeoutSeconds)
	}
	if pl.MaxSteps == 0 {
		pl.MaxSteps = e.o.Defaults.MaxSteps
	}
	if pl.MaxCostUSD == 0 {
		pl.MaxCostUSD = e.o.Defaults.MaxCostUSD
	}
	deadline := e.o.Defaults.ApprovalDeadline
	if r.ApprovalDeadline != "" {
		d, err := time.ParseDuration(r.ApprovalDeadline)
		if err != nil || d < time.Second || d > maxDeadline {
			return invalid("approval_deadline", "%q must be a Go duration from 1s to %s, for example 72h", r.ApprovalDeadline, maxDeadline)
		}
		deadline = d
	}
	pl.ApprovalDeadline = deadline.String()
	if len(r.OutputSchema) > 0 {
		var m map[string]any
		if json.Unmarshal(r.OutputSchema, &m) != nil {
			return invalid("output_schema", "must be a JSON Schema object")
		}
	}
	return nil
}

// place resolves the workspace to an existing folder.
func (e *Engine) place(pl *Plan) error {
	if pl.Workspace == "" {
		pl.Workspace = e.o.Workspace
	}
	if !filepath.IsAbs(pl.Workspace) || strings.ContainsRune(pl.Workspace, 0) {
		return invalid("workspace", "%q must be an absolute path", pl.Workspace)
	}
	pl.Workspace = filepath.Clean(pl.Workspace)
	st, err := os.Stat(pl.Workspace)
	if err != nil || !st.IsDir() {
		return invalid("workspace", "%s is not a folder on this node", pl.Workspace)
	}
	if inside(e.o.StateDir, pl.Workspace) {
		return invalid("workspace", "%s is the daemon's own state", pl.Workspace)
	}
	return nil
}

func inside(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// permissions joins the request with the node's floor. The pair of axes is checked on the request, before the floor.
func (e *Engine) permissions(p Principal, pl *Plan, asked *tool.PermissionConfig) error {
	req := tool.DefaultPermissionConfig()
	if asked != nil {
		req = asked.Normalize()
	}
	if err := req.Validate(); err != nil {
		field, msg, ok := strings.Cut(err.Error(), ": ")
		if !ok {
			field, msg = "permissions", err.Error()
		}
		return invalid(field, "%s", msg)
	}
	eff := tool.Join(req, e.o.Floor.Normalize())
	switch {
	case eff.Sandbox != tool.SandboxScopeUnrestricted:
		return notBuilt("permissions.sandbox", "%s is not available on this node", eff.Sandbox)
	case eff.Network != tool.NetworkPolicyAllow:
		return notBuilt("permissions.network", "%s is not available on this node", eff.Network)
	case !p.Can(ScopeRunsUnrestricted):
		return &Error{Kind: KindForbidden, Code: "insufficient_scope", Field: "permissions.sandbox",
			Message: "the key needs the scope " + ScopeRunsUnrestricted + " for a run with sandbox unrestricted",
			Details: map[string]any{"required": ScopeRunsUnrestricted}}
	}
	pl.Permissions = event.Permissions{
		Sandbox: string(eff.Sandbox), Network: string(eff.Network), AllowedHosts: eff.AllowedHosts, Approval: string(eff.Approval),
	}
	return nil
}

func (e *Engine) checkModel(pl Plan) error {
	if e.o.CheckModel == nil {
		return nil
	}
	err := e.o.CheckModel(pl.Model, pl.ProviderName, nil)
	switch {
	case err == nil:
	case errors.Is(err, model.ErrTypeNotBuilt):
		return notBuilt("model", "%s", err)
	case errors.Is(err, model.ErrUnknownProvider):
		return invalid("provider_name", "%s", err)
	default:
		return invalid("model", "%s", err)
	}
	if len(pl.FallbackProviders) == 0 {
		return nil
	}
	err = e.o.CheckModel(pl.Model, pl.ProviderName, pl.FallbackProviders)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, model.ErrTypeNotBuilt):
		return notBuilt("fallback_providers", "%s", err)
	}
	return invalid("fallback_providers", "%s", err)
}
