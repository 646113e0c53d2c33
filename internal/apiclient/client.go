// Package apiclient is a client of the run API, for the command line: over TCP to a daemon, or inside one process
// straight into the API's handler (InProcess).
//
// It owns requests, the reading of answers and of event streams with their reconnects. It decides nothing about runs
// and keeps nothing. Answers that are not a success are *Problem errors. The API key occurs in no error.
package apiclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/engine"
)

// Problem is an answer that is not a success.
type Problem = api.Problem

// Options configures a client.
type Options struct {
	// BaseURL is where the API is, such as http://127.0.0.1:8080. Required.
	BaseURL string
	// Key is the API key; empty for a server without authentication.
	Key string
	// Transport is the way to the server. Nil: http.DefaultTransport. See InProcess.
	Transport http.RoundTripper
	// Timeout bounds every request but event streams. 0: 30 s more than what the server takes at most, one minute.
	Timeout time.Duration
	// Patience is how long a broken event stream is taken up again without a single event or sign of life, before
	// Events gives up. 0: two minutes.
	Patience time.Duration
}

// Client is safe for concurrent use.
type Client struct {
	base     *url.URL
	key      string
	http     *http.Client
	timeout  time.Duration
	patience time.Duration
}

const maxAnswer = 64 << 20

// New checks the options. It does not connect.
func New(o Options) (*Client, error) {
	u, err := url.Parse(o.BaseURL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return nil, errors.New("api client: the base URL must look like http://127.0.0.1:8080")
	}
	c := &Client{base: u, key: o.Key, timeout: o.Timeout, patience: o.Patience}
	if c.timeout <= 0 {
		c.timeout = time.Minute
	}
	if c.patience <= 0 {
		c.patience = 2 * time.Minute
	}
	c.http = &http.Client{
		Transport: o.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("the server redirects; the key is not sent elsewhere")
		},
	}
	return c, nil
}

func (c *Client) request(ctx context.Context, method, path string, query url.Values, body any) (*http.Request, error) {
	u := c.base.JoinPath(path)
	u.RawQuery = query.Encode()
	var r io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("api client: encode request: %w", err)
		}
		r = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), r)
	if err != nil {
		return nil, fmt.Errorf("api client: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	return req, nil
}

// do sends a request and reads its answer into out, unless that is nil.
func (c *Client) do(ctx context.Context, method, path string, query url.Values, header http.Header, body, out any) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := c.request(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	res, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("api client: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode >= 300 {
		return problemOf(res)
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("api client: read answer of %s %s: %w", method, path, err)
	case len(data) > maxAnswer:
		return fmt.Errorf("api client: answer of %s %s is larger than %d bytes", method, path, maxAnswer)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("api client: decode answer of %s %s: %w", method, path, err)
	}
	return nil
}

// problemOf reads the problem of an answer. What is no problem, from a proxy say, becomes one without a code.
func problemOf(res *http.Response) *Problem {
	data, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	mt, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	var p Problem
	if mt != api.ProblemType || json.Unmarshal(data, &p) != nil || p.Code == "" {
		return &Problem{
			Type: "about:blank", Title: http.StatusText(res.StatusCode), Status: res.StatusCode,
			Detail: "the server did not answer as the run API does; is the address right?",
		}
	}
	p.Status = res.StatusCode
	return &p
}

// Health asks whether the server answers.
func (c *Client) Health(ctx context.Context) error {
	return c.do(ctx, http.MethodGet, "healthz", nil, nil, nil, nil)
}

// CreateRun starts a run. With an idempotency key the request may be repeated.
func (c *Client) CreateRun(ctx context.Context, req engine.RunRequest, idempotencyKey string) (api.RunAccepted, error) {
	var out api.RunAccepted
	return out, c.do(ctx, http.MethodPost, "v1/runs", nil, keyHeader(idempotencyKey), req, &out)
}

// Continue starts a further run of an ended run's conversation.
func (c *Client) Continue(ctx context.Context, runID string, req engine.ContinueRequest, idempotencyKey string) (api.RunAccepted, error) {
	var out api.RunAccepted
	return out, c.do(ctx, http.MethodPost, runRoute(runID, "continue"), nil, keyHeader(idempotencyKey), req, &out)
}

func keyHeader(k string) http.Header {
	if k == "" {
		return nil
	}
	return http.Header{"Idempotency-Key": {k}}
}

func runRoute(id, verb string) string {
	p := "v1/runs/" + url.PathEscape(id)
	if verb != "" {
		p += "/" + verb
	}
	return p
}

// GetRun returns one run.
func (c *Client) GetRun(ctx context.Context, runID string) (api.Run, error) {
	var out api.Run
	return out, c.do(ctx, http.MethodGet, runRoute(runID, ""), nil, nil, nil, &out)
}

// ListRuns filters a list of runs. Zero values do not filter.
type ListRuns struct {
	ConversationID string
	Status         string
	TenantID       string
	Cursor         string
	Limit          int
}

// ListRuns returns a page of runs, newest first.
func (c *Client) ListRuns(ctx context.Context, o ListRuns) (api.RunList, error) {
	var out api.RunList
	return out, c.do(ctx, http.MethodGet, "v1/runs", query(o.Limit, map[string]string{
		"conversation_id": o.ConversationID, "status": o.Status, "tenant_id": o.TenantID, "cursor": o.Cursor,
	}), nil, nil, &out)
}

func query(limit int, values map[string]string) url.Values {
	q := url.Values{}
	for k, v := range values {
		if v != "" {
			q.Set(k, v)
		}
	}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	return q
}

// Cancel asks a run to end.
func (c *Client) Cancel(ctx context.Context, runID string) (api.RunCancelled, error) {
	var out api.RunCancelled
	return out, c.do(ctx, http.MethodPost, runRoute(runID, "cancel"), nil, nil, nil, &out)
}

// Steer sends a message to an active run.
func (c *Client) Steer(ctx context.Context, runID, prompt string) error {
	return c.do(ctx, http.MethodPost, runRoute(runID, "steer"), nil, nil, api.SteerRequest{Prompt: prompt}, nil)
}

// ListApprovals filters a list of approvals. Zero values do not filter.
type ListApprovals struct {
	Status string
	RunID  string
	Cursor string
	Limit  int
}

// Approvals returns a page of approvals, newest first.
func (c *Client) Approvals(ctx context.Context, o ListApprovals) (api.ApprovalList, error) {
	var out api.ApprovalList
	return out, c.do(ctx, http.MethodGet, "v1/approvals", query(o.Limit, map[string]string{
		"status": o.Status, "run_id": o.RunID, "cursor": o.Cursor,
	}), nil, nil, &out)
}

// Approval returns one approval.
func (c *Client) Approval(ctx context.Context, id string) (event.Approval, error) {
	var out event.Approval
	return out, c.do(ctx, http.MethodGet, "v1/approvals/"+url.PathEscape(id), nil, nil, nil, &out)
}

// Decide answers an approval.
func (c *Client) Decide(ctx context.Context, id string, d api.DecisionRequest) (event.Approval, error) {
	var out event.Approval
	return out, c.do(ctx, http.MethodPost, "v1/approvals/"+url.PathEscape(id), nil, nil, d, &out)
}

// DecideOnly answers the only pending approval of a run.
func (c *Client) DecideOnly(ctx context.Context, runID string, approve bool, reason string) (api.RunDecided, error) {
	verb := "deny"
	if approve {
		verb = "approve"
	}
	var out api.RunDecided
	return out, c.do(ctx, http.MethodPost, runRoute(runID, verb), nil, nil, api.ReasonRequest{Reason: reason}, &out)
}

// PendingQuestion returns the questions that a run waits for.
func (c *Client) PendingQuestion(ctx context.Context, runID string) (event.PendingQuestion, error) {
	var out event.PendingQuestion
	return out, c.do(ctx, http.MethodGet, runRoute(runID, "input"), nil, nil, nil, &out)
}

// Answer answers the questions that a run waits for.
func (c *Client) Answer(ctx context.Context, runID string, answers map[string][]string) error {
	body := api.AnswerRequest{Answers: make(map[string]api.Choice, len(answers))}
	for q, a := range answers {
		if a == nil {
			a = []string{}
		}
		body.Answers[q] = a
	}
	return c.do(ctx, http.MethodPost, runRoute(runID, "input"), nil, nil, body, nil)
}

// Tools lists the tools that runs can use.
func (c *Client) Tools(ctx context.Context) ([]api.Tool, error) {
	var out api.ToolList
	err := c.do(ctx, http.MethodGet, "v1/tools", nil, nil, nil, &out)
	return out.Tools, err
}
