package chat_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/modeltest"
	"github.com/harness-go/harness/model/wire/chat"
	"github.com/harness-go/harness/model/wire/transport"
)

func textStream(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"word %d "},"finish_reason":null}]}`+"\n\n", i)
	}
	b.WriteString(`data: {"id":"chatcmpl-1","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n")
	return b.Bytes()
}

func argsStream(n int) []byte {
	var b bytes.Buffer
	b.WriteString(`data: {"id":"1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"write","arguments":"{\"content\":\""}}]}}]}` + "\n\n")
	for range n {
		b.WriteString(`data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"0123456789"}}]},"finish_reason":null}]}` + "\n\n")
	}
	b.WriteString(`data: {"id":"1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"}"}}]},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n")
	return b.Bytes()
}

func benchmarkDecode(b *testing.B, stream []byte) {
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range chat.Decode(bytes.NewReader(stream), "p", "m") {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkDecode10kTextDeltas(b *testing.B)     { benchmarkDecode(b, textStream(10_000)) }
func BenchmarkDecode40kTextDeltas(b *testing.B)     { benchmarkDecode(b, textStream(40_000)) }
func BenchmarkDecode10kArgumentDeltas(b *testing.B) { benchmarkDecode(b, argsStream(10_000)) }
func BenchmarkDecode40kArgumentDeltas(b *testing.B) { benchmarkDecode(b, argsStream(40_000)) }

// BenchmarkStream10kTextDeltas is the whole way, over HTTP on loopback.
func BenchmarkStream10kTextDeltas(b *testing.B) {
	stream := textStream(10_000)
	s := serve(b, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(stream) }))
	c := newClient(b, chat.Config{Config: transport.Config{BaseURL: s.URL}})
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range c.Stream(context.Background(), modeltest.Ask("hi")) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkSend8MBResult sends a tool result of 8 MiB.
func BenchmarkSend8MBResult(b *testing.B) {
	s := serve(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = bytes.NewBuffer(nil).ReadFrom(r.Body)
		_, _ = w.Write(textStream(1))
	}))
	c := newClient(b, chat.Config{Config: transport.Config{BaseURL: s.URL}})
	req := modeltest.Ask("hi")
	req.Messages = append(req.Messages,
		ai.Message{Role: ai.RoleAssistant, Content: []ai.Part{ai.ToolCallPart{ToolCallID: "c", ToolName: "read", Input: "{}"}}},
		ai.Message{Role: ai.RoleTool, Content: []ai.Part{ai.ToolResultContent{
			ToolCallID: "c", ToolName: "read", Output: ai.TextResult(strings.Repeat("line of text\n", 8<<20/13)),
		}}})
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range c.Stream(context.Background(), req) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

var _ model.Model = (*chat.Client)(nil)
