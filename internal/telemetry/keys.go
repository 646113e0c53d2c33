package telemetry

import "go.opentelemetry.io/otel/attribute"

// The names of the GenAI semantic conventions. They stand here because the conventions have no Go package.
const (
	keyOperation      = attribute.Key("gen_ai.operation.name")
	keyProvider       = attribute.Key("gen_ai.provider.name")
	keyConversation   = attribute.Key("gen_ai.conversation.id")
	keyAgentName      = attribute.Key("gen_ai.agent.name")
	keyAgentID        = attribute.Key("gen_ai.agent.id")
	keyRequestModel   = attribute.Key("gen_ai.request.model")
	keyResponseModel  = attribute.Key("gen_ai.response.model")
	keyFinishReasons  = attribute.Key("gen_ai.response.finish_reasons")
	keyFirstChunk     = attribute.Key("gen_ai.response.time_to_first_chunk")
	keyInputTokens    = attribute.Key("gen_ai.usage.input_tokens")
	keyOutputTokens   = attribute.Key("gen_ai.usage.output_tokens")
	keyCacheRead      = attribute.Key("gen_ai.usage.cache_read.input_tokens")
	keyCacheCreation  = attribute.Key("gen_ai.usage.cache_creation.input_tokens")
	keyReasoning      = attribute.Key("gen_ai.usage.reasoning.output_tokens")
	keyTokenType      = attribute.Key("gen_ai.token.type")
	keyToolName       = attribute.Key("gen_ai.tool.name")
	keyToolType       = attribute.Key("gen_ai.tool.type")
	keyToolCallID     = attribute.Key("gen_ai.tool.call.id")
	keyToolArguments  = attribute.Key("gen_ai.tool.call.arguments")
	keyToolResult     = attribute.Key("gen_ai.tool.call.result")
	keyInputMessages  = attribute.Key("gen_ai.input.messages")
	keyOutputMessages = attribute.Key("gen_ai.output.messages")

	operationAgent = "invoke_agent"
	operationChat  = "chat"
	operationTool  = "execute_tool"

	metricTokens   = "gen_ai.client.token.usage"
	metricDuration = "gen_ai.client.operation.duration"
)

// Names of other conventions.
const (
	keyErrorType       = attribute.Key("error.type")
	keyStatusCode      = attribute.Key("http.response.status_code")
	keyServiceName     = attribute.Key("service.name")
	keyServiceVersion  = attribute.Key("service.version")
	keyServiceInstance = attribute.Key("service.instance.id")
)

// Our own names, for what the conventions have no word for.
const (
	keyRun        = attribute.Key("harness.run.id")
	keySegment    = attribute.Key("harness.run.segment")
	keyStatus     = attribute.Key("harness.run.status")
	keyTenant     = attribute.Key("harness.tenant.id")
	keyHarness    = attribute.Key("harness.name")
	keyStep       = attribute.Key("harness.step")
	keyAttempt    = attribute.Key("harness.model.attempt")
	keyPurpose    = attribute.Key("harness.model.purpose")
	keyCost       = attribute.Key("harness.model.cost_usd")
	keyToolKind   = attribute.Key("harness.tool.kind")
	keyDecision   = attribute.Key("harness.tool.decision") // allow | approved | deny
	keyApproval   = attribute.Key("harness.approval.id")
	keyLinkReason = attribute.Key("harness.link")
)

// providerNames are the well-known names of providers, where ours differ.
var providerNames = map[string]string{
	"google": "gcp.gemini", "gemini": "gcp.gemini", "google-vertex": "gcp.vertex_ai", "vertexai": "gcp.vertex_ai",
	"bedrock": "aws.bedrock", "azure": "azure.ai.openai", "mistral": "mistral_ai", "xai": "x_ai",
}

func providerName(configured string) string {
	if n, ok := providerNames[configured]; ok {
		return n
	}
	return configured
}

// finishReasons are the words of the conventions.
var finishReasons = map[string]string{"tool-calls": "tool_calls", "content-filter": "content_filter"}

func finishReason(ours string) string {
	if r, ok := finishReasons[ours]; ok {
		return r
	}
	return ours
}
