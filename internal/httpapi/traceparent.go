package httpapi

import (
	"context"
	"strings"
)

// traceparent is the W3C trace context of the request, empty where there is none or it is not valid: a caller's fault in
// it must not cost a run.
func traceparent(ctx context.Context) string {
	c := callOf(ctx)
	if c == nil {
		return ""
	}
	values := c.r.Header.Values("Traceparent")
	if len(values) != 1 {
		return ""
	}
	return parseTraceparent(values[0])
}

// traceparentLen is the length of version 00: "00-", 32 and 16 digits, and 2 of flags.
const traceparentLen = 55

// parseTraceparent returns a trace context in the form of version 00. Of a later version it takes what that knows.
func parseTraceparent(s string) string {
	s = strings.TrimSpace(s)
	if len(s) < traceparentLen || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return ""
	}
	version, trace, span, flags := s[:2], s[3:35], s[36:52], s[53:55]
	for _, part := range []string{version, trace, span, flags} {
		if strings.Trim(part, "0123456789abcdef") != "" {
			return ""
		}
	}
	switch {
	case version == "ff", version == "00" && len(s) != traceparentLen, len(s) > traceparentLen && s[traceparentLen] != '-':
		return ""
	case strings.Trim(trace, "0") == "", strings.Trim(span, "0") == "":
		return ""
	}
	return "00-" + trace + "-" + span + "-" + flags
}
