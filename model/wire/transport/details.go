package transport

import (
	"encoding/json"
	"time"
)

// readDetails takes what a client can act on from the details of an error: typed objects of google.rpc.
func (e *APIError) readDetails(raw json.RawMessage) {
	var list []struct {
		RetryDelay Loose `json:"retryDelay"`
		Reason     Loose `json:"reason"`
	}
	if json.Unmarshal(raw, &list) != nil {
		return // absent, or another service's own form
	}
	for _, d := range list {
		if wait, err := time.ParseDuration(string(d.RetryDelay)); err == nil && wait > e.RetryAfter {
			e.RetryAfter = min(wait, maxRetryAfter)
		}
		if e.Reason == "" {
			e.Reason = string(d.Reason)
		}
	}
}

// badKey reports whether the key is the fault, which Google's services say with the status of a bad request.
func (e *APIError) badKey() bool { return e.Reason == "API_KEY_INVALID" }
