package httpapi

import (
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"

	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/engine"
)

// MaxBody bounds the body of a request, in bytes; MaxRunBody that of one that may hold attachments.
const (
	MaxBody    = 1 << 20
	MaxRunBody = MaxBody + engine.MaxAttachmentBytes/3*4
)

// readBody reads the whole body. A larger one is refused by its announced length before any of it is read, or at the
// limit; the connection then ends. The media type must be JSON wherever there is a body, and wherever a body is
// needed: a form of another site cannot send that without asking first.
func readBody(w http.ResponseWriter, r *http.Request, needed bool, limit int64) ([]byte, *api.Problem) {
	if r.ContentLength > limit {
		w.Header().Set("Connection", "close")
		return nil, tooLarge(limit)
	}
	none := r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody
	if ct := r.Header.Get("Content-Type"); ct != "" || (needed && !none) {
		if p := checkMediaType(ct); p != nil {
			return nil, p
		}
	}
	if none {
		if needed {
			return nil, api.NewProblem(api.CodeInvalidJSON, "the body is empty; send a JSON object")
		}
		return nil, nil
	}
	data, err := io.ReadAll(http.MaxBytesReader(innermost(w), r.Body, limit))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			w.Header().Set("Connection", "close")
			return nil, tooLarge(limit)
		}
		if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
			return nil, api.NewProblem(api.CodeReadTimeout, "the body did not arrive in time")
		}
		return nil, api.NewProblem(api.CodeInvalidJSON, "the body could not be read to its end")
	}
	if len(data) > 0 && r.Header.Get("Content-Type") == "" {
		return nil, checkMediaType("")
	}
	if len(data) == 0 && needed {
		return nil, api.NewProblem(api.CodeInvalidJSON, "the body is empty; send a JSON object")
	}
	return data, nil
}

func tooLarge(limit int64) *api.Problem {
	return api.NewProblem(api.CodeBodyTooLarge, "the body is larger than %d bytes", limit)
}

func checkMediaType(ct string) *api.Problem {
	mt, params, err := mime.ParseMediaType(ct)
	charset := params["charset"]
	if err != nil || mt != "application/json" || (charset != "" && !strings.EqualFold(charset, "utf-8")) {
		return api.NewProblem(api.CodeMediaType, "send the body as Content-Type: application/json").At("Content-Type")
	}
	return nil
}

// innermost is the server's own writer, which MaxBytesReader tells to close the connection.
func innermost(w http.ResponseWriter) http.ResponseWriter {
	for {
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w
		}
		w = u.Unwrap()
	}
}
