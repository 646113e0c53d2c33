package gemini_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/model/modeltest"
	"github.com/harness-go/harness/model/wire/gemini"
	"github.com/harness-go/harness/model/wire/transport"
)

// textStream has events as the service writes them: with blanks, and with a usage that grows.
func textStream(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, `data: {"candidates": [{"content": {"parts": [{"text": "word %d "}],"role": "model"},"index": 0}],"usageMetadata": {"promptTokenCount": 11,"candidatesTokenCount": %d,"totalTokenCount": %d,"promptTokensDetails": [{"modality": "TEXT","tokenCount": 11}]},"modelVersion": "m","responseId": "r"}`+"\r\n\r\n", i, i, i+11)
	}
	b.WriteString(`data: {"candidates": [{"content": {"parts": [{"text": "","thoughtSignature": "c2ln"}],"role": "model"},"finishReason": "STOP","index": 0}]}` + "\r\n\r\n")
	return b.Bytes()
}

// callStream has one call with n*10 bytes of arguments.
func callStream(n int) []byte {
	return []byte(`data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"write","args":{"content":"` +
		strings.Repeat("0123456789", n) + `"}},"thoughtSignature":"c2ln"}]},"finishReason":"STOP"}]}` + "\n\n")
}

func benchmarkDecode(b *testing.B, stream []byte) {
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range gemini.Decode(bytes.NewReader(stream), "p", "m") {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkDecode10kTextDeltas(b *testing.B) { benchmarkDecode(b, textStream(10_000)) }
func BenchmarkDecode40kTextDeltas(b *testing.B) { benchmarkDecode(b, textStream(40_000)) }
func BenchmarkDecodeCallOf400KB(b *testing.B)   { benchmarkDecode(b, callStream(40_000)) }

// BenchmarkStream10kTextDeltas is the whole way, over HTTP on loopback.
func BenchmarkStream10kTextDeltas(b *testing.B) {
	stream := textStream(10_000)
	s := serve(b, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(stream) }))
	c := newClient(b, gemini.Config{Config: transport.Config{BaseURL: s.URL}})
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
	c := newClient(b, gemini.Config{Config: transport.Config{BaseURL: s.URL}})
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
