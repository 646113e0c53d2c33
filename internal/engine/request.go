package engine

import (
	"encoding/json"

	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/tool"
)

// RunRequest asks for a run. Fields whose capability is not built yet are accepted by name only, so that they can be
// refused with a 501 that names them (see Submit).
type RunRequest struct {
	Prompt            string                 `json:"prompt"`
	Model             string                 `json:"model,omitempty"`
	ProviderName      string                 `json:"provider_name,omitempty"`
	FallbackProviders []string               `json:"fallback_providers,omitempty"`
	ReasoningEffort   string                 `json:"reasoning_effort,omitempty"`
	SystemPrompt      string                 `json:"system_prompt,omitempty"`
	ConversationID    string                 `json:"conversation_id,omitempty"`
	TenantID          string                 `json:"tenant_id,omitempty"`
	Agent             string                 `json:"agent,omitempty"`
	AgentID           string                 `json:"agent_id,omitempty"`
	Harness           string                 `json:"harness,omitempty"`
	Workspace         string                 `json:"workspace,omitempty"`
	Profile           string                 `json:"profile,omitempty"`
	AllowedTools      []string               `json:"allowed_tools,omitempty"`
	DeniedTools       []string               `json:"denied_tools,omitempty"`
	Permissions       *tool.PermissionConfig `json:"permissions,omitempty"`
	MCPServers        json.RawMessage        `json:"mcp_servers,omitempty"`
	MaxSteps          int                    `json:"max_steps,omitempty"`
	MaxCostUSD        float64                `json:"max_cost_usd,omitempty"`
	MaxTokensTotal    int64                  `json:"max_tokens_total,omitempty"`
	TimeoutSeconds    int                    `json:"timeout_seconds,omitempty"`
	ApprovalDeadline  string                 `json:"approval_deadline,omitempty"`
	OutputSchema      json.RawMessage        `json:"output_schema,omitempty"`
	Attachments       []Attachment           `json:"attachments,omitempty"`
	Metadata          map[string]string      `json:"metadata,omitempty"`
	// Traceparent is the caller's W3C trace context, checked; empty: none. It is no part of what is asked for.
	Traceparent string `json:"-"`
}

// ContinueRequest asks for a further run of an ended run's conversation.
type ContinueRequest struct {
	Prompt       string                 `json:"prompt"`
	AllowedTools []string               `json:"allowed_tools,omitempty"`
	Permissions  *tool.PermissionConfig `json:"permissions,omitempty"`
	Attachments  []Attachment           `json:"attachments,omitempty"`
	// Compact makes the conversation's history shorter before the run's first model call.
	Compact *native.CompactRequest `json:"compact,omitempty"`
	// Traceparent is the caller's W3C trace context, checked; empty: none.
	Traceparent string `json:"-"`
}

// Principal is who asks. The zero value has no rights; with auth switched off it is Local.
type Principal struct {
	KeyID    string
	Name     string
	TenantID string
	Scopes   []string
}

// Scopes of API keys. ScopeAdmin includes all others; ScopeRunsWrite includes ScopeRunsRead. ScopeMetrics reads the
// figures of the whole node.
const (
	ScopeRunsRead         = "runs:read"
	ScopeRunsWrite        = "runs:write"
	ScopeRunsUnrestricted = "runs:unrestricted"
	ScopeApprovals        = "approvals:decide"
	ScopeMetrics          = "metrics:read"
	ScopeAdmin            = "admin"
)

// DefaultTenant is the tenant of requests that name none.
const DefaultTenant = "default"

// Local is the principal of a daemon without auth and of the command line's embedded engine.
func Local() Principal {
	return Principal{KeyID: "local", Name: "local", TenantID: DefaultTenant, Scopes: []string{ScopeAdmin}}
}

// Can reports whether the principal has a scope.
func (p Principal) Can(scope string) bool {
	for _, s := range p.Scopes {
		if s == scope || s == ScopeAdmin || (s == ScopeRunsWrite && scope == ScopeRunsRead) {
			return true
		}
	}
	return false
}

// Identity is how records name the principal.
func (p Principal) Identity() string { return "key:" + p.KeyID }
