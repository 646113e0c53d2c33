package gemini

import (
	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/model/wire/transport"
)

// reason unifies why the answer ended. A prompt that the service blocks has no answer at all; that too is its filter.
//
// Where the model wrote a call that the service could not read, or called what was not offered, nothing of the answer
// can be used: it counts as incomplete, so that the call is made again.
func (d *decoder) reason() (ai.FinishReason, error) {
	r := ai.FinishReason{Raw: d.finish}
	switch d.finish {
	case "":
		if d.blocked == "" {
			return r, transport.ErrIncomplete
		}
		return ai.FinishReason{Unified: ai.FinishContentFilter, Raw: d.blocked}, nil
	case "STOP":
		r.Unified = ai.FinishStop
		if d.calls > 0 {
			r.Unified = ai.FinishToolCalls
		}
	case "MAX_TOKENS":
		r.Unified = ai.FinishLength
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT",
		"IMAGE_RECITATION":
		r.Unified = ai.FinishContentFilter
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE":
		return r, &unusable{reason: d.finish, message: d.message}
	case "MISSING_THOUGHT_SIGNATURE":
		return r, &transport.APIError{Code: d.finish, Type: "INVALID_ARGUMENT", Message: or(d.message, "a signature is missing in the history")}
	default:
		r.Unified = ai.FinishOther
	}
	return r, nil
}

// unusable is the error of an answer that ended, but in which the service found nothing to give on.
type unusable struct{ reason, message string }

func (e *unusable) Error() string {
	return "the answer is unusable: " + e.reason + ": " + or(e.message, "the model wrote no call that can be read")
}

// Is makes it an incomplete answer to package transport.
func (e *unusable) Is(target error) bool { return target == transport.ErrIncomplete }

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
