package responses_test

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/modeltest"
	"github.com/harness-go/harness/model/wire/responses"
	"github.com/harness-go/harness/model/wire/transport"
)

func textStream(n int) []byte {
	var b bytes.Buffer
	b.WriteString(stream(added(0, `{"id":"msg_1","type":"message","content":[]}`)))
	for i := range n {
		fmt.Fprintf(&b, "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":%d,\"item_id\":\"msg_0123456789\",\"output_index\":0,\"content_index\":0,\"delta\":\"word %d \",\"logprobs\":[],\"obfuscation\":\"abcdefgh\"}\n\n", i, i)
	}
	b.WriteString(done(0, message("all")) + completed)
	return b.Bytes()
}

func argsStream(n int) []byte {
	var b bytes.Buffer
	b.WriteString(stream(added(0, `{"type":"function_call","call_id":"c","name":"write","arguments":""}`)))
	for i := range n {
		fmt.Fprintf(&b, "event: response.function_call_arguments.delta\ndata: {\"type\":\"response.function_call_arguments.delta\",\"sequence_number\":%d,\"item_id\":\"fc_0123456789\",\"output_index\":0,\"delta\":\"\\\"word%d\\\",\",\"obfuscation\":\"abcdefgh\"}\n\n", i, i)
	}
	b.WriteString(done(0, `{"type":"function_call","call_id":"c","name":"write","arguments":"…"}`) + completed)
	return b.Bytes()
}

func benchmarkDecode(b *testing.B, stream []byte) {
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range responses.Decode(bytes.NewReader(stream), "p", "m") {
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
	body := textStream(10_000)
	m := newClient(b, responses.Config{Config: transport.Config{HTTPClient: &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		return answerWith(http.StatusOK, nil, string(body)), nil
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
	m := newClient(b, responses.Config{Config: transport.Config{HTTPClient: &http.Client{Transport: &recorder{}}}})
	req := model.Request{Model: "m", Messages: []ai.Message{ai.UserMessage("go"), says(ai.RoleAssistant, call("c", "f", "{}")), says(ai.RoleTool, result("c", text))}}
	b.ReportAllocs()
	for b.Loop() {
		if a := modeltest.Collect(b.Context(), m, req); a.Err != nil {
			b.Fatal(a.Err)
		}
	}
}
