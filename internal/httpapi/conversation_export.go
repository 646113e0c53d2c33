package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/engine"
)

const (
	ndjson      = "application/x-ndjson"
	exportPage  = 100 // messages or runs that are read at once
	maxFileName = 80
)

type exportInput struct {
	ConversationPath
	Include string `query:"include" enum:"messages,events" default:"messages" doc:"messages, or every event of every run in order"`
}

const exportDoc = "One JSON value a line: the first tells the format, its version and the conversation; then one line for each message, or " +
	"with include=events for each event of its runs, the oldest run first; the last is of type end. A file without that line was cut."

// exportRoute streams a conversation. What is held in memory is one page.
func (s *Server) exportRoute() {
	handle(s, operation{
		method: http.MethodGet, path: "/v1/conversations/{id}/export", id: "export-conversation", scopes: readRuns,
		summary: "Take a conversation along as a file",
		doc:     exportDoc,
		responses: map[string]*huma.Response{"200": {
			Description: "The lines; each is an ExportLine",
			Content:     map[string]*huma.MediaType{ndjson: {Schema: &huma.Schema{Type: huma.TypeString}}},
		}},
	}, func(ctx context.Context, p engine.Principal, in *exportInput, _ *none) (*huma.StreamResponse, error) {
		conv, err := s.runs.Conversation(ctx, p, in.ID)
		if err != nil {
			return nil, err
		}
		c := callOf(ctx)
		return &huma.StreamResponse{Body: func(huma.Context) {
			if s.streams.Add(1) > int64(s.limits.Streams) {
				s.streams.Add(-1)
				writeProblem(c.w, api.NewProblem(api.CodeTooManyStreams, "the server sends %d streams already", s.limits.Streams))
				return
			}
			defer s.streams.Add(-1)
			h := c.w.Header()
			h.Set("Content-Type", ndjson)
			h.Set("Content-Disposition", `attachment; filename="conversation-`+fileName(in.ID)+`.ndjson"`)
			c.w.WriteHeader(http.StatusOK)
			if c.r.Method == http.MethodHead {
				return
			}
			x := &export{s: s, p: p, id: in.ID, out: newFrames(c.w, s.limits.Stall)}
			if err := x.write(c.r.Context(), conversationView(conv), in.Include); err != nil {
				if c.r.Context().Err() == nil {
					_ = s.problemOf(c.r.Context(), err) // logs what is not a refusal
				}
				panic(http.ErrAbortHandler) // the answer has begun: it must not look whole
			}
		}}, nil
	})
}

// export is one file on its way out.
type export struct {
	s     *Server
	p     engine.Principal
	id    string
	out   *frames
	lines int
}

func (x *export) write(ctx context.Context, c api.Conversation, include string) error {
	now := time.Now().UTC()
	err := x.line(ctx, api.ExportLine{Type: "conversation", Format: api.ExportFormat, Version: api.ExportVersion, ExportedAt: &now, Conversation: &c})
	if err == nil && include == "events" {
		err = x.events(ctx)
	} else if err == nil {
		err = x.messages(ctx)
	}
	if err == nil {
		err = x.line(ctx, api.ExportLine{Type: "end", Lines: x.lines})
	}
	if err == nil {
		err = x.out.flush()
	}
	return err
}

// line sends one value.
func (x *export) line(ctx context.Context, v api.ExportLine) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	x.lines++
	return x.out.raw(buf.Bytes())
}

func (x *export) messages(ctx context.Context) error {
	for after := int64(0); ; {
		page, next, err := x.s.runs.Messages(ctx, x.p, x.id, after, exportPage)
		if err != nil {
			return err
		}
		for i := range page {
			if err := x.line(ctx, api.ExportLine{Type: "message", Message: &page[i]}); err != nil {
				return err
			}
		}
		if next == 0 {
			return nil
		}
		after = next
	}
}

// events sends the logs of all runs, the oldest run first. Of the runs only the ids are held.
func (x *export) events(ctx context.Context) error {
	var ids []string
	for cursor := ""; ; {
		runs, next, err := x.s.runs.ConversationRuns(ctx, x.p, x.id, cursor, exportPage)
		if err != nil {
			return err
		}
		for _, r := range runs {
			ids = append(ids, r.ID)
		}
		if cursor = next; next == "" {
			break
		}
	}
	for _, id := range slices.Backward(ids) {
		for after := int64(0); ; {
			var page []event.Event
			page, err := x.s.runs.Events(ctx, x.p, id, after, x.s.limits.Page)
			if err != nil {
				return err
			}
			if len(page) == 0 {
				break
			}
			for i := range page {
				if err := x.line(ctx, api.ExportLine{Type: "event", Event: &page[i]}); err != nil {
					return err
				}
			}
			after = page[len(page)-1].Seq
		}
	}
	return nil
}

// fileName keeps what is harmless in a file's name on every system.
func fileName(id string) string {
	s := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '_'
	}, id)
	return s[:min(len(s), maxFileName)]
}
