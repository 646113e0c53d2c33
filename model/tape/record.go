package tape

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/harness-go/harness/model"
)

// recorder passes calls on and writes what came back.
type recorder struct {
	tape *Tape
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := readRequest(req)
	if err != nil {
		return nil, err
	}
	if err := r.tape.Err(); err != nil {
		return nil, unusable("an earlier exchange could not be recorded", err)
	}
	temp, err := os.CreateTemp(r.tape.dir, ".tape-*.tmp")
	if err != nil {
		return nil, unusable("the exchange cannot be recorded", err)
	}
	number := r.tape.number()
	secrets := keys(req)
	x := &exchange{Version: version, Method: req.Method, Path: path(req), Query: cleanQuery(req.URL.Query())}
	x.setRequest(blotOut(body, secrets))

	out := req.Clone(req.Context())
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	resp, err := r.next.RoundTrip(out)
	tap := &tap{tape: r.tape, temp: temp, number: number, exchange: x, secrets: secrets}
	if err != nil {
		// A call that its caller ended says nothing of the server.
		if req.Context().Err() != nil {
			tap.drop()
			return nil, err
		}
		x.Cut = true
		tap.finish()
		return nil, err
	}
	x.Status, x.Headers = resp.StatusCode, keptHeaders(req.URL, resp.Header, secrets)
	tap.body, tap.left = resp.Body, resp.ContentLength
	resp.Body = tap
	return resp, nil
}

// CloseIdleConnections lets http.Client reach the transport behind.
func (r *recorder) CloseIdleConnections() {
	if c, ok := r.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// readRequest reads a request's body and closes it.
func readRequest(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, maxRequest+1))
	if cerr := req.Body.Close(); err == nil {
		err = cerr
	}
	if err == nil && len(body) > maxRequest {
		err = unusable(fmt.Sprintf("the request is larger than %d bytes", maxRequest), nil)
	}
	return body, err
}

func path(req *http.Request) string {
	if p := req.URL.EscapedPath(); p != "" {
		return p
	}
	return "/"
}

// unusable is the error of a tape that cannot do its work. Making the call again does not help.
func unusable(message string, cause error) *model.Error {
	if cause != nil {
		message += ": " + cause.Error()
	}
	return &model.Error{Kind: model.ErrInvalidRequest, Code: "tape", Message: "tape: " + message, Cause: cause}
}

// tap is the body of an answer that is being recorded. The recording is written when it ends.
type tap struct {
	tape     *Tape
	temp     *os.File
	number   int
	exchange *exchange
	secrets  []string
	body     io.ReadCloser
	left     int64 // of the announced length; negative: none was
	buf      bytes.Buffer
	done     bool
}

// Read implements io.Reader.
func (t *tap) Read(p []byte) (int, error) {
	n, err := t.body.Read(p)
	if t.done {
		return n, err
	}
	t.buf.Write(p[:n])
	t.left -= int64(n)
	switch {
	case t.buf.Len() > maxResponse:
		t.drop()
		err := fmt.Errorf("an answer is larger than %d bytes", maxResponse)
		t.tape.fail(err)
		return n, unusable("the exchange cannot be recorded", err)
	case errors.Is(err, io.EOF):
		t.finish()
	case err != nil:
		t.exchange.Cut = true
		t.finish()
	}
	return n, err
}

// Close implements io.Closer. An answer of which nobody read the end is cut.
func (t *tap) Close() error {
	if !t.done {
		t.exchange.Cut = t.left != 0
		t.finish()
	}
	return t.body.Close()
}

func (t *tap) finish() {
	t.done = true
	t.exchange.setBody(blotOut(t.buf.Bytes(), t.secrets))
	if err := t.tape.save(t.temp, t.number, t.exchange); err != nil {
		t.tape.fail(err) // it is told by the next call: this one has its answer
	}
}

func (t *tap) drop() {
	t.done = true
	_ = t.temp.Close() // it holds nothing
	_ = os.Remove(t.temp.Name())
}
