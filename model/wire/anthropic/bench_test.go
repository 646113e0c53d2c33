package anthropic_test

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/modeltest"
	"github.com/harness-go/harness/model/wire/anthropic"
	"github.com/harness-go/harness/model/wire/transport"
)

func textStream(n int) []byte {
	var b bytes.Buffer
	b.WriteString(event("message_start", begin) + event("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`))
	for i := range n {
		fmt.Fprintf(&b, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"word %d \"}}\n\n", i)
	}
	b.WriteString(event("content_block_stop", `,"index":0`) + stop("end_turn"))
	return b.Bytes()
}

func argsStream(n int) []byte {
	var b bytes.Buffer
	b.WriteString(event("message_start", begin) + event("content_block_start", `,"index":0,"content_block":{"type":"tool_use","id":"t","name":"write","input":{}}`))
	b.WriteString(event("content_block_delta", `,"index":0,"delta":{"type":"input_json_delta","partial_json":"{\"content\":\""}`))
	for range n {
		b.WriteString(event("content_block_delta", `,"index":0,"delta":{"type":"input_json_delta","partial_json":"0123456789"}`))
	}
	b.WriteString(event("content_block_delta", `,"index":0,"delta":{"type":"input_json_delta","partial_json":"\"}"}`) + stop("tool_use"))
	return b.Bytes()
}

func benchmarkDecode(b *testing.B, stream []byte) {
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range anthropic.Decode(bytes.NewReader(stream), "p", "m") {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkDecode10kTextDeltas(b *testing.B)     { benchmarkDecode(b, textStream(10_000)) }
func BenchmarkDecode10kArgumentDeltas(b *testing.B) { benchmarkDecode(b, argsStream(10_000)) }
func BenchmarkDecode40kArgumentDeltas(b *testing.B) { benchmarkDecode(b, argsStream(40_000)) }

// BenchmarkStream10kTextDeltas includes the request, the transport's reading and its timers.
func BenchmarkStream10kTextDeltas(b *testing.B) {
	body := string(textStream(10_000))
	m := newClient(b, anthropic.Config{Config: transport.Config{HTTPClient: &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		return answerWith(http.StatusOK, nil, body), nil
	})}}})
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range m.Stream(b.Context(), modeltest.Ask("hi")) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkSend8MBResult(b *testing.B) {
	text := string(bytes.Repeat([]byte("0123456\n"), 1<<20))
	m := newClient(b, anthropic.Config{Config: transport.Config{HTTPClient: &http.Client{Transport: &recorder{}}}})
	req := model.Request{Model: "m", Messages: []ai.Message{ai.UserMessage("go"), says(ai.RoleAssistant, call("c", "f", "{}")), says(ai.RoleTool, result("c", text))}}
	b.ReportAllocs()
	for b.Loop() {
		if a := modeltest.Collect(b.Context(), m, req); a.Err != nil {
			b.Fatal(a.Err)
		}
	}
}
