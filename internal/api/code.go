package api

import "net/http"

// Code says what went wrong, for programs. Codes are stable; there is one for each cause.
type Code string

// The codes of problems. Codes has their statuses and meanings.
const (
	CodeInvalidJSON        Code = "invalid_json"
	CodeUnknownField       Code = "unknown_field"
	CodeDuplicateField     Code = "duplicate_field"
	CodeInvalidRequest     Code = "invalid_request"
	CodeInvalidCursor      Code = "invalid_cursor"
	CodeUnauthorized       Code = "unauthorized"
	CodeInsufficientScope  Code = "insufficient_scope"
	CodeForbidden          Code = "forbidden"
	CodeCrossOrigin        Code = "cross_origin"
	CodeAuthRequired       Code = "auth_required"
	CodeNotFound           Code = "not_found"
	CodeMethodNotAllowed   Code = "method_not_allowed"
	CodeReadTimeout        Code = "read_timeout"
	CodeConflict           Code = "conflict"
	CodeApprovalConflict   Code = "approval_conflict"
	CodeNoPendingApproval  Code = "no_pending_approval"
	CodeSeveralPending     Code = "several_pending_approvals"
	CodeNoPendingInput     Code = "no_pending_input"
	CodeInputConflict      Code = "input_conflict"
	CodeRunNotActive       Code = "run_not_active"
	CodeRunNotFinished     Code = "run_not_finished"
	CodeConversationActive Code = "conversation_active"
	CodeNothingToFork      Code = "nothing_to_fork"
	CodeIdempotency        Code = "idempotency_mismatch"
	CodeBodyTooLarge       Code = "body_too_large"
	CodeMediaType          Code = "unsupported_media_type"
	CodeHostNotAllowed     Code = "host_not_allowed"
	CodeSteeringBufferFull Code = "steering_buffer_full"
	CodeInternal           Code = "internal_error"
	CodeNotBuilt           Code = "not_built"
	CodeBusy               Code = "busy"
	CodeTimeout            Code = "timeout"
	CodeTooManyStreams     Code = "too_many_streams"
)

// CodeInfo describes a code.
type CodeInfo struct {
	Code    Code
	Status  int
	Title   string
	Meaning string
}

var codes = []CodeInfo{
	{CodeInvalidJSON, http.StatusBadRequest, "Invalid JSON", "The body is not one JSON object in UTF-8."},
	{CodeUnknownField, http.StatusBadRequest, "Unknown field", "The body or the query has a field that does not exist. field names it; detail says where it belongs, if it belongs somewhere else."},
	{CodeDuplicateField, http.StatusBadRequest, "Duplicate field", "A field is there twice."},
	{CodeInvalidRequest, http.StatusBadRequest, "Invalid request", "A value cannot be used. field names it."},
	{CodeInvalidCursor, http.StatusBadRequest, "Invalid cursor", "The cursor is garbled, belongs to another run or list, or points behind the end of the log."},
	{CodeUnauthorized, http.StatusUnauthorized, "Unauthorized", "There is no API key, or it is unknown, expired or revoked."},
	{CodeInsufficientScope, http.StatusForbidden, "Insufficient scope", "The key lacks a scope. required names it."},
	{CodeForbidden, http.StatusForbidden, "Forbidden", "The key may not ask for this."},
	{CodeCrossOrigin, http.StatusForbidden, "Cross-origin request", "A page of another origin made the request."},
	{CodeAuthRequired, http.StatusForbidden, "Authentication required", "Authentication is switched off and the connection does not come in over loopback."},
	{CodeNotFound, http.StatusNotFound, "Not found", "There is no such path, or no such run, conversation, approval or question in the key's tenant."},
	{CodeMethodNotAllowed, http.StatusMethodNotAllowed, "Method not allowed", "The path does not take this method. The header Allow has those that it takes."},
	{CodeReadTimeout, http.StatusRequestTimeout, "Request timeout", "The body did not arrive in time."},
	{CodeConflict, http.StatusConflict, "Conflict", "The state does not allow it."},
	{CodeApprovalConflict, http.StatusConflict, "Approval conflict", "The approval was answered otherwise, or can no longer be answered. details is the approval."},
	{CodeNoPendingApproval, http.StatusConflict, "No pending approval", "No approval of the run waits for an answer."},
	{CodeSeveralPending, http.StatusConflict, "Several pending approvals", "More than one approval of the run waits; answer each by its id. details lists them."},
	{CodeNoPendingInput, http.StatusConflict, "No pending input", "The run does not wait for an answer to a question."},
	{CodeInputConflict, http.StatusConflict, "Input conflict", "The question was answered otherwise, or can no longer be answered."},
	{CodeRunNotActive, http.StatusConflict, "Run not active", "The run has ended."},
	{CodeRunNotFinished, http.StatusConflict, "Run not finished", "The run has not ended yet."},
	{CodeConversationActive, http.StatusConflict, "Conversation active", "The conversation has runs that have not ended. details names them."},
	{CodeNothingToFork, http.StatusConflict, "Nothing to fork", "The conversation has no messages that a copy could have."},
	{CodeIdempotency, http.StatusConflict, "Idempotency mismatch", "The idempotency key was used with another body."},
	{CodeBodyTooLarge, http.StatusRequestEntityTooLarge, "Body too large", "The body is larger than the limit."},
	{CodeMediaType, http.StatusUnsupportedMediaType, "Unsupported media type", "The body is not application/json."},
	{CodeHostNotAllowed, http.StatusMisdirectedRequest, "Host not allowed", "The Host header names a host that this server does not answer for."},
	{CodeSteeringBufferFull, http.StatusTooManyRequests, "Steering buffer full", "Too many messages wait for the run."},
	{CodeInternal, http.StatusInternalServerError, "Internal error", "The server failed. instance finds the cause in its log."},
	{CodeNotBuilt, http.StatusNotImplemented, "Not built", "The capability is documented and not available on this node. detail names it."},
	{CodeBusy, http.StatusServiceUnavailable, "Unavailable", "The server cannot take the request now. Try again."},
	{CodeTimeout, http.StatusServiceUnavailable, "Timeout", "The request took too long and was given up. A write may have happened: repeat it with its idempotency key."},
	{CodeTooManyStreams, http.StatusServiceUnavailable, "Too many streams", "The server follows as many event streams as it may."},
}

// Codes lists every code.
func Codes() []CodeInfo { return append([]CodeInfo(nil), codes...) }

// Info finds a code, and reports whether it exists.
func (c Code) Info() (CodeInfo, bool) {
	for i := range codes {
		if codes[i].Code == c {
			return codes[i], true
		}
	}
	return CodeInfo{}, false
}
