package apiclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/engine"
)

func conversationRoute(id, verb string) string {
	p := "v1/conversations/" + url.PathEscape(id)
	if verb != "" {
		p += "/" + verb
	}
	return p
}

// ListConversations filters a list of conversations. Zero values do not filter.
type ListConversations struct {
	AgentID string
	Cursor  string
	Limit   int
}

// Conversations returns a page of conversations, the one with the newest run first.
func (c *Client) Conversations(ctx context.Context, o ListConversations) (api.ConversationList, error) {
	var out api.ConversationList
	return out, c.do(ctx, http.MethodGet, "v1/conversations", query(o.Limit, map[string]string{
		"agent_id": o.AgentID, "cursor": o.Cursor,
	}), nil, nil, &out)
}

// Conversation returns one conversation.
func (c *Client) Conversation(ctx context.Context, id string) (api.Conversation, error) {
	var out api.Conversation
	return out, c.do(ctx, http.MethodGet, conversationRoute(id, ""), nil, nil, nil, &out)
}

// ConversationRuns returns a page of a conversation's runs, newest first.
func (c *Client) ConversationRuns(ctx context.Context, id, cursor string, limit int) (api.RunList, error) {
	var out api.RunList
	return out, c.do(ctx, http.MethodGet, conversationRoute(id, "runs"), query(limit, map[string]string{"cursor": cursor}), nil, nil, &out)
}

// Messages returns a page of a conversation's messages, oldest first.
func (c *Client) Messages(ctx context.Context, id, cursor string, limit int) (api.MessageList, error) {
	var out api.MessageList
	return out, c.do(ctx, http.MethodGet, conversationRoute(id, "messages"), query(limit, map[string]string{"cursor": cursor}), nil, nil, &out)
}

// SearchConversations asks for what was said. Tools searches tool calls too.
type SearchConversations struct {
	Query  string
	Tools  bool
	Cursor string
	Limit  int
}

// SearchConversations returns a page of what was found, best first.
func (c *Client) SearchConversations(ctx context.Context, o SearchConversations) (api.SearchResult, error) {
	q := query(o.Limit, map[string]string{"q": o.Query, "cursor": o.Cursor})
	if o.Tools {
		q.Set("tools", strconv.FormatBool(true))
	}
	var out api.SearchResult
	return out, c.do(ctx, http.MethodGet, "v1/conversations/search", q, nil, nil, &out)
}

// ForkConversation makes a copy of a conversation.
func (c *Client) ForkConversation(ctx context.Context, id string, req engine.ForkRequest) (api.ConversationForked, error) {
	var out api.ConversationForked
	return out, c.do(ctx, http.MethodPost, conversationRoute(id, "fork"), nil, nil, req, &out)
}

// DeleteConversation deletes a conversation.
func (c *Client) DeleteConversation(ctx context.Context, id string) error {
	return c.do(ctx, http.MethodDelete, conversationRoute(id, ""), nil, nil, nil, nil)
}

// CleanUpConversations deletes what did not change for some days.
func (c *Client) CleanUpConversations(ctx context.Context, maxAgeDays int) (api.CleanedUp, error) {
	var out api.CleanedUp
	return out, c.do(ctx, http.MethodPost, "v1/conversations/cleanup", nil, nil, api.CleanUpRequest{MaxAgeDays: maxAgeDays}, &out)
}

// errCutExport means that an export ended before its last line.
var errCutExport = errors.New("the export broke off: what was written is not whole")

// ExportConversation writes a conversation to w, a JSON value a line. include is messages or events; empty means
// messages. An error after the first line leaves a file that is not whole.
func (c *Client) ExportConversation(ctx context.Context, id, include string, w io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := c.request(ctx, http.MethodGet, conversationRoute(id, "export"), query(0, map[string]string{"include": include}), nil)
	if err != nil {
		return err
	}
	// An export may take long, but not without a byte.
	dog := time.AfterFunc(silence, cancel)
	defer dog.Stop()
	res, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("api client: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return problemOf(res)
	}
	t := &tail{}
	if _, err := io.Copy(io.MultiWriter(w, t), watched{res.Body, dog}); err != nil {
		return fmt.Errorf("%w: %w", errCutExport, err)
	}
	if !t.ended() {
		return errCutExport
	}
	return nil
}

// tail keeps the last bytes that were written.
type tail struct{ buf []byte }

const tailBytes = 256

func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p[max(0, len(p)-tailBytes):]...)
	t.buf = t.buf[max(0, len(t.buf)-tailBytes):]
	return len(p), nil
}

// ended reports whether the last line is the one that ends an export.
func (t *tail) ended() bool {
	lines := bytes.Split(bytes.TrimSuffix(t.buf, []byte("\n")), []byte("\n"))
	return bytes.HasSuffix(t.buf, []byte("\n")) && bytes.HasPrefix(lines[len(lines)-1], []byte(`{"type":"end",`))
}
