package api

import (
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/tool"
)

// RunSummary is what a run did.
type RunSummary struct {
	RunID                 string           `json:"run_id"`
	Status                string           `json:"status"`
	StepsTaken            int              `json:"steps_taken"`
	ModelCalls            int              `json:"model_calls" doc:"calls that were made, repeated ones included"`
	DiscardedAttempts     int              `json:"discarded_attempts" doc:"model calls whose answer did not count"`
	TotalPromptTokens     int64            `json:"total_prompt_tokens"`
	TotalCompletionTokens int64            `json:"total_completion_tokens"`
	CachedTokens          int64            `json:"cached_tokens"`
	TotalCostUSD          float64          `json:"total_cost_usd"`
	CostStatus            event.CostStatus `json:"cost_status,omitempty"`
	CacheHitRate          float64          `json:"cache_hit_rate" doc:"part of the prompt tokens that came from the provider's cache"`
	ToolCallsTotal        int              `json:"tool_calls_total"`
	ToolCalls             []ToolUse        `json:"tool_calls" doc:"in the order of their start; at most 2,000"`
	DurationMS            int64            `json:"duration_ms" doc:"from the request to the end, or to now"`
	Error                 string           `json:"error,omitempty"`
	Reason                string           `json:"reason,omitempty"`
}

// ToolUse is one tool call of a summary.
type ToolUse struct {
	ToolName   string `json:"tool_name"`
	Step       int    `json:"step"`
	CallID     string `json:"call_id"`
	Status     string `json:"status" enum:"running,completed,failed"`
	Error      string `json:"error,omitempty" doc:"the code of the failure"`
	DurationMS int64  `json:"duration_ms,omitempty"`
}

// RunContext tells how full the context of a run's session is.
type RunContext struct {
	RunID string `json:"run_id"`
	tool.ContextStatus
}

// CompactRequest asks for a shorter history.
type CompactRequest = native.CompactRequest

// TodoList is the todo list of a run.
type TodoList struct {
	RunID string       `json:"run_id"`
	Todos []event.Todo `json:"todos"`
}

// TodosRequest is a new todo list.
type TodosRequest struct {
	Todos []event.Todo `json:"todos"`
}

// Model is a model that runs can use. Prices are US dollars per million tokens; they mean something only where priced
// is true.
type Model struct {
	ID                     string   `json:"id"`
	Provider               string   `json:"provider"`
	Name                   string   `json:"name,omitempty"`
	Default                bool     `json:"default,omitempty" doc:"serves runs that name no model"`
	ContextWindow          int64    `json:"context_window,omitempty" doc:"tokens; absent where it is not known"`
	MaxOutputTokens        int64    `json:"max_output_tokens,omitempty"`
	Priced                 bool     `json:"priced" doc:"false: max_cost_usd cannot be kept with it and is refused"`
	InputCostPerMTok       float64  `json:"input_cost_per_mtok,omitempty"`
	OutputCostPerMTok      float64  `json:"output_cost_per_mtok,omitempty"`
	CachedInputCostPerMTok float64  `json:"cached_input_cost_per_mtok,omitempty"`
	CacheWriteCostPerMTok  float64  `json:"cache_write_cost_per_mtok,omitempty"`
	ReasoningEfforts       []string `json:"reasoning_efforts,omitempty"`
	Images                 bool     `json:"images,omitempty"`
}

// ModelList is a page of models, by provider.
type ModelList struct {
	Models     []Model `json:"models"`
	NextCursor string  `json:"next_cursor,omitempty" doc:"cursor of the next page; absent on the last one"`
}

// Provider is a configured provider of models. Its key is never shown.
type Provider struct {
	Name       string `json:"name"`
	Type       string `json:"type,omitempty" doc:"the wire"`
	BaseURL    string `json:"base_url,omitempty"`
	Configured bool   `json:"configured" doc:"there is a key, or the address is on this machine"`
	KeyFrom    string `json:"key_from,omitempty" enum:"settings,api" doc:"where the key comes from; absent where there is none"`
	APIKeyEnv  string `json:"api_key_env,omitempty" doc:"customary variable of the key"`
	ModelCount int    `json:"model_count"`
	Default    bool   `json:"default,omitempty"`
}

// ProviderList lists the providers in the order of the configuration.
type ProviderList struct {
	Providers []Provider `json:"providers"`
}

// ProviderKey is a provider's key.
type ProviderKey struct {
	Key string `json:"key"`
}
