package tape

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/harness-go/harness/model"
)

// player answers from the tape.
type player struct{ tape *Tape }

// errCut is what ends an answer, or a connection, that was cut when it was recorded.
var errCut = fmt.Errorf("as recorded: %w", io.ErrUnexpectedEOF)

// RoundTrip implements http.RoundTripper.
func (p *player) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := readRequest(req)
	if err != nil {
		return nil, err
	}
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	t := p.tape
	body = blotOut(body, keys(req))
	sum := digest(path(req), body)
	files := t.recorded[sum]
	name, ok := t.scope(req.Context()).take(sum, files)
	if !ok {
		return nil, miss(t.missed(path(req), body, sum, len(files)))
	}
	x, err := t.load(name)
	if err != nil {
		return nil, unusable("an answer cannot be replayed", err)
	}
	if x.Status == 0 {
		return nil, errCut
	}
	h := http.Header{}
	for k, v := range x.Headers {
		h.Set(k, v)
	}
	return &http.Response{
		StatusCode: x.Status, Status: fmt.Sprintf("%d %s", x.Status, http.StatusText(x.Status)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h, ContentLength: -1, Request: req,
		Body: &answer{ctx: req.Context(), rest: bytes.NewReader(x.body()), cut: x.Cut},
	}, nil
}

// answer is a recorded body.
type answer struct {
	ctx  context.Context
	rest *bytes.Reader
	cut  bool
}

// Read implements io.Reader.
func (a *answer) Read(p []byte) (int, error) {
	if err := a.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := a.rest.Read(p)
	if errors.Is(err, io.EOF) && a.cut {
		err = errCut
	}
	return n, err
}

// Close implements io.Closer.
func (a *answer) Close() error { return nil }

// MissError says that a replay was asked for what the tape does not hold. It shows no content of either request.
type MissError struct {
	// Path is that of the request's URL.
	Path string
	// Recorded is the number of answers to this very request, all of them given. 0: it was never recorded.
	Recorded int
	// Nearest is the file with the most similar request, empty where none has the path.
	Nearest string
	// Difference says where the two first differ.
	Difference string
}

func (e *MissError) Error() string {
	s := "no recorded answer matches the request to " + e.Path
	switch {
	case e.Recorded > 0:
		return s + fmt.Sprintf(": it is recorded %d times and was asked for once more", e.Recorded)
	case e.Nearest == "":
		return s + ": no request to this path is recorded"
	}
	return s + ": the nearest recorded request, " + e.Nearest + ", differs first at " + e.Difference
}

func miss(e *MissError) *model.Error {
	return &model.Error{Kind: model.ErrInvalidRequest, Code: "not_recorded", Message: e.Error(), Cause: e}
}
