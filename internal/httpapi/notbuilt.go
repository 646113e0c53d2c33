package httpapi

import (
	"net/http"
	"strings"

	"github.com/harness-go/harness/internal/api"
)

// notBuilt are the documented routes that this server does not have yet: "methods path" by capability. They answer
// with a problem that names the capability, so that a client can tell them from a mistyped path.
var notBuilt = []struct {
	capability string
	routes     string
}{
	{"replay", "POST /v1/runs/replay, POST /v1/runs/{id}/replay"},
	{"synchronous agents", "POST /v1/agents"},
	{"events of whole conversations", "GET /v1/conversations/{id}/events"},
	{"rewinding conversations", `GET /v1/conversations/{id}/rewind-points, POST /v1/conversations/{id}/rewind,
		POST /v1/conversations/{id}/undo`},
	{"subscriptions of providers", "POST /v1/providers/{name}/import-subscription"},
	{"summaries of messages", "POST /v1/summarize"},
	{"skills", "GET /v1/skills, GET /v1/skills/{name}, POST /v1/skills/{name}/verify"},
	{"subagents", `GET /v1/subagents, POST /v1/subagents, GET /v1/subagents/{id}, DELETE /v1/subagents/{id},
		POST /v1/subagents/{id}/wait, POST /v1/subagents/{id}/cancel`},
	{"profiles", "GET /v1/profiles, GET /v1/profiles/{name}, POST /v1/profiles/{name}, PUT /v1/profiles/{name}, DELETE /v1/profiles/{name}"},
	{"cron jobs", `GET /v1/cron/jobs, POST /v1/cron/jobs, GET /v1/cron/jobs/{id}, PATCH /v1/cron/jobs/{id}, DELETE /v1/cron/jobs/{id},
		POST /v1/cron/jobs/{id}/pause, POST /v1/cron/jobs/{id}/resume, GET /v1/cron/jobs/{id}/executions, POST /v1/cron/runs`},
	{"checkpoints over HTTP", "GET /v1/checkpoints/{id}, POST /v1/checkpoints/{id}/resume"},
	{"recipes", "GET /v1/recipes, GET /v1/recipes/{name}, GET /v1/recipes/{name}/schema"},
	{"networks of agents", "GET /v1/networks, GET /v1/networks/{name}, POST /v1/networks/{name}/runs"},
	{"workflows", `GET /v1/workflows, GET /v1/workflows/{name}, POST /v1/workflows/{name}/runs, GET /v1/workflow-runs/{id},
		GET /v1/workflow-runs/{id}/events, POST /v1/workflow-runs/{id}/resume`},
	{"script workflows", `GET /v1/script-workflows, GET /v1/script-workflows/{name}, POST /v1/script-workflows/{name}/runs,
		GET /v1/script-workflow-runs/{id}, GET /v1/script-workflow-runs/{id}/events, POST /v1/script-workflow-runs/{id}/resume`},
	{"MCP servers over HTTP", "GET /v1/mcp/servers, POST /v1/mcp/servers"},
	{"code search", "POST /v1/search/code"},
	{"external triggers", "POST /v1/external/trigger, POST /v1/webhooks/github, POST /v1/webhooks/slack, POST /v1/webhooks/linear"},
	{"hooks over HTTP", "GET /v1/hooks"},
	{"tasks", "GET /v1/tasks"},
	{"the run visualisation", "GET /viz, GET /v1/viz"},
	{"reload of the configuration", "POST /v1/config/reload"},
	{"model settings", "/v1/model-settings, /v1/model-settings/"},
	{"background jobs over HTTP", "POST /v1/jobs/{id}/kill, GET /v1/jobs/{id}/output"},
	{"delayed callbacks", "POST /v1/callbacks/{id}/cancel"},
	{"the relay", "/v1/relay/"},
	{"the MCP server", "POST /mcp"},
}

func (s *Server) notBuiltRoutes() {
	for _, n := range notBuilt {
		for _, pattern := range strings.Split(n.routes, ",") {
			s.mux.HandleFunc(strings.TrimSpace(pattern), func(w http.ResponseWriter, _ *http.Request) {
				writeProblem(w, api.NewProblem(api.CodeNotBuilt, "%s: not available on this node", n.capability))
			})
		}
	}
}
