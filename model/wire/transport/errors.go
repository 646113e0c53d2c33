package transport

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/wire/sse"
)

const (
	maxErrorBody    = 64 << 10
	maxErrorMessage = 1000
	maxWord         = 200 // of a code or a request id
	maxRetryAfter   = 365 * 24 * time.Hour
)

// clean makes a server's text fit for an error: one line of valid UTF-8, bounded, without our key.
func (c *Client) clean(s string) string {
	if key := c.cfg.APIKey.Reveal(); len(key) >= 4 {
		s = strings.ReplaceAll(s, key, "[redacted]")
	}
	return bounded(s, maxErrorMessage)
}

func (c *Client) cleanWord(s string) string { return bounded(c.clean(s), maxWord) }

func bounded(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.TrimSpace(s))
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

func requestID(h http.Header) string {
	for _, k := range []string{"X-Request-Id", "Request-Id", "X-Amzn-Requestid", "Cf-Ray"} {
		if id := h.Get(k); id != "" {
			return id
		}
	}
	return ""
}

// retryAfter reads retry-after-ms, then retry-after in seconds or as a date. Nonsense is 0, "not said".
func retryAfter(h http.Header, now time.Time) time.Duration {
	if d, ok := span(h.Get("Retry-After-Ms"), time.Millisecond); ok {
		return d
	}
	v := h.Get("Retry-After")
	if d, ok := span(v, time.Second); ok {
		return d
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

func span(s string, unit time.Duration) (time.Duration, bool) {
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || math.IsNaN(f) || f < 0 {
		return 0, false
	}
	return time.Duration(min(f, float64(maxRetryAfter/unit)) * float64(unit)), true
}

// waitError tells why a wait for the server ended, if it was not the server: the caller's own end comes first, then
// our timer. nil means that the server or the network ended it.
func (c *Client) waitError(x *exchange) error {
	if err := x.caller.Err(); err != nil {
		return err
	}
	if x.ctx.Err() != nil {
		return c.fail(model.ErrIdle, fmt.Sprintf("nothing came from the server for %s", x.waiting), errIdle)
	}
	return nil
}

func (c *Client) requestError(x *exchange, err error) error {
	if w := c.waitError(x); w != nil {
		return w
	}
	if e, ok := c.given(err); ok {
		return e
	}
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err // the outer text repeats the URL
	}
	if errors.Is(err, errRedirect) {
		return c.fail(model.ErrProtocol, err.Error(), errRedirect)
	}
	return c.fail(model.ErrConnection, err.Error(), err)
}

// given is the error of what Config.Wrap put before the network, where it says its kind itself.
func (c *Client) given(err error) (*model.Error, bool) {
	e, ok := model.AsError(err)
	if !ok {
		return nil, false
	}
	out := *e
	out.Provider, out.Message, out.Code = c.cfg.Provider, c.clean(e.Message), c.cleanWord(e.Code)
	return &out, true
}

func (c *Client) statusError(x *exchange, resp *http.Response, id string) error {
	body, err := io.ReadAll(io.LimitReader(x, maxErrorBody))
	if err != nil && x.caller.Err() != nil {
		return x.caller.Err()
	}
	var said APIError
	if e := ParseErrorBody(body); e != nil {
		said = *e
	} else {
		said.Message = plainText(body)
	}
	e := &model.Error{
		Kind:       model.KindOfStatus(resp.StatusCode),
		Provider:   c.cfg.Provider,
		Status:     resp.StatusCode,
		Code:       c.cleanWord(said.name()),
		Message:    c.clean(said.Message),
		RequestID:  c.cleanWord(id),
		RetryAfter: retryAfter(resp.Header, c.now()),
	}
	if e.RetryAfter == 0 {
		e.RetryAfter = said.RetryAfter
	}
	if e.Kind == model.ErrInvalidRequest && said.badKey() {
		e.Kind = model.ErrAuth
	}
	if e.Kind == model.ErrInvalidRequest || e.Kind == model.ErrServer {
		if model.SaysContextLength(said.name(), said.Message) {
			e.Kind = model.ErrContextLength
		}
	}
	if e.Message == "" {
		e.Message = http.StatusText(resp.StatusCode)
	}
	return e
}

// answerError turns what ended the reading of an answer into the error of the call.
func (c *Client) answerError(x *exchange, err error, id string) error {
	if errors.Is(err, errStopped) {
		return err
	}
	var said *APIError
	var bad *protocolError
	var e *model.Error
	if given, ok := c.given(err); ok {
		given.RequestID = c.cleanWord(id)
		return given
	}
	switch {
	case errors.As(err, &said):
		e = c.fail(said.kind(), said.Message, nil)
		e.Code, e.Status, e.RetryAfter = c.cleanWord(said.name()), said.status(), said.RetryAfter
		if e.Message == "" {
			e.Message = "the server sent an error without a message"
		}
	case errors.As(err, &bad):
		e = c.fail(model.ErrProtocol, bad.text, nil)
	case errors.Is(err, ErrTooLarge), errors.Is(err, sse.ErrTooLarge):
		e = c.fail(model.ErrProtocol, "the answer is larger than the bound", err)
	case errors.Is(err, ErrIncomplete):
		e = c.fail(model.ErrIncomplete, err.Error(), nil)
	default:
		w := c.waitError(x)
		if w == nil {
			w = c.fail(model.ErrIncomplete, "the connection broke before the end of the answer", err)
		}
		if !errors.As(w, &e) {
			return w // the caller's own end
		}
	}
	e.RequestID = c.cleanWord(id)
	return e
}
