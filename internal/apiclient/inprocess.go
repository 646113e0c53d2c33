package apiclient

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// InProcess is a transport straight into a handler: no port, no socket. Answers stream: the body can be read while
// the handler still writes, and a write waits until it is read. Closing the body, or the end of the request's
// context, ends the handler's context. A panic of the handler is an error of the request or of its body.
func InProcess(h http.Handler) http.RoundTripper { return inProcess{h} }

type inProcess struct{ h http.Handler }

func (t inProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	r := req.Clone(ctx)
	r.RequestURI = req.URL.RequestURI()
	r.RemoteAddr = "in-process"
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	if r.Host == "" {
		r.Host = req.URL.Host
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	pr, pw := io.Pipe()
	w := &pipeWriter{header: http.Header{}, body: pw, begun: make(chan struct{}), req: req}
	// The context's end must reach a handler that waits for its reader, and a reader that waits for its handler.
	stop := context.AfterFunc(ctx, func() { _ = pw.CloseWithError(context.Cause(ctx)) })
	go func() {
		defer cancel()
		defer stop()
		defer func() { _ = r.Body.Close() }()
		defer func() {
			if p := recover(); p != nil {
				w.finish(fmt.Errorf("handler panicked: %v", p))
				return
			}
			w.finish(nil)
		}()
		t.h.ServeHTTP(w, r)
	}()
	select {
	case <-w.begun:
	case <-ctx.Done():
		// A handler that ended normally also ends ctx; what it answered comes first.
		select {
		case <-w.begun:
		default:
			_ = pr.CloseWithError(context.Cause(ctx))
			return nil, context.Cause(ctx)
		}
	}
	if w.failed != nil {
		return nil, w.failed
	}
	res := w.response()
	res.Body = &pipeBody{PipeReader: pr, cancel: cancel}
	return res, nil
}

// pipeBody ends the handler when the reader loses interest.
type pipeBody struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (b *pipeBody) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}

// pipeWriter is the handler's side.
type pipeWriter struct {
	req    *http.Request
	header http.Header
	body   *io.PipeWriter
	once   sync.Once
	begun  chan struct{}
	status int         // before begun is closed
	sent   http.Header // before begun is closed
	failed error       // before begun is closed
}

func (w *pipeWriter) Header() http.Header { return w.header }

func (w *pipeWriter) WriteHeader(status int) {
	if status < 200 {
		return // interim answers are nothing to us
	}
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.begun)
	})
}

func (w *pipeWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.status == http.StatusNoContent || w.req.Method == http.MethodHead {
		return len(p), nil
	}
	return w.body.Write(p)
}

// Flush has nothing to do but to begin the answer: nothing is held back.
func (w *pipeWriter) Flush() { w.WriteHeader(http.StatusOK) }

func (w *pipeWriter) finish(err error) {
	w.once.Do(func() { // nothing was written
		w.failed = err
		w.status, w.sent = http.StatusOK, w.header.Clone()
		close(w.begun)
	})
	if err == nil {
		err = io.EOF
	}
	_ = w.body.CloseWithError(err)
}

func (w *pipeWriter) response() *http.Response {
	return &http.Response{
		Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), StatusCode: w.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.sent, ContentLength: -1, Request: w.req,
	}
}
