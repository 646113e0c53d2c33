package render

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/api"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s differs; look at it, then run go test ./internal/cli/render -update\n%s", file, d)
	}
}

var at = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

func events(t *testing.T, payloads ...event.Payload) []event.Event {
	t.Helper()
	var out []event.Event
	for i, p := range payloads {
		data, err := event.Encode("conv", event.Fact{Step: 1, Payload: p})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, event.Event{RunID: "run_1", Seq: int64(i + 1), Type: p.EventType(), Timestamp: at, Payload: data})
	}
	return out
}

func story(t *testing.T) []event.Event {
	return events(t,
		event.RunQueuedPayload{Prompt: "fix it"},
		event.RunStartedPayload{Prompt: "fix it", Harness: "native", Model: "m-1", Workspace: "/w", Notes: []string{"Commands run without a sandbox: approvals are advisory."}},
		event.RunStepStartedPayload{},
		event.LLMTurnRequestedPayload{Attempt: 1},
		event.AssistantMessageDeltaPayload{Content: "I'll lo"},
		event.LLMAttemptDiscardedPayload{Attempt: 1, Reason: "the connection broke", RetryInMS: 500},
		event.LLMTurnRequestedPayload{Attempt: 2},
		event.AssistantMessageDeltaPayload{Content: "I'll look "},
		event.AssistantMessageDeltaPayload{Content: "at it.\x1b[2J"},
		event.AssistantMessagePayload{Content: "I'll look at it.\x1b[2J"},
		event.ToolCallStartedPayload{CallID: "c1", Tool: "read", Arguments: `{"path":"a.go"}`, Kind: "readonly"},
		event.ToolCallStartedPayload{CallID: "c2", Tool: "grep", Arguments: `{"pattern":"func","path":"b"}`, Kind: "readonly"},
		event.ToolCallCompletedPayload{CallID: "c1", Tool: "read", Output: `{"path":"a.go"}`, DurationMS: 4},
		event.ToolCallCompletedPayload{CallID: "c2", Tool: "grep", Output: `{"error":{"code":"not_found","message":"no such folder: b"}}`, Error: "not_found", DurationMS: 1},
		event.ToolApprovalRequiredPayload{ApprovalID: "ap_1", CallID: "c3", Tool: "bash", Arguments: `{"command":"go test\n./..."}`, Digest: "d"},
		event.ToolApprovalGrantedPayload{ApprovalID: "ap_1", CallID: "c3", Tool: "bash", DecidedBy: "key:local"},
		event.ToolCallStartedPayload{CallID: "c3", Tool: "bash", Arguments: `{"command":"go test\n./..."}`, Kind: "bash", ApprovalID: "ap_1"},
		event.ToolCallCompletedPayload{CallID: "c3", Tool: "bash", Output: `{"command":"go test","exit_code":1}`, Error: "exit_status", DurationMS: 2140},
		event.ToolCallStartedPayload{CallID: "c4", Tool: "edit", Arguments: `{"path":"a.go","old_text":"-","new_text":"+"}`, Kind: "edit"},
		event.ToolCallCompletedPayload{CallID: "c4", Tool: "edit", Output: `{"path":"a.go"}`, DurationMS: 9, Diff: "--- a/a.go\n+++ b/a.go\n@@ -1,2 +1,2 @@\n func add(a, b int) int {\n-\treturn a - b\n+\treturn a + b\n"},
		event.ToolCallBlockedPayload{CallID: "c5", Tool: "write", Stage: "declared", Reason: "write is not among the allowed tools"},
		event.ToolCallCompletedPayload{CallID: "c6", Tool: "bash", Interrupted: true, Error: "interrupted"},
		event.ToolApprovalDeniedPayload{ApprovalID: "ap_2", CallID: "c7", Tool: "bash", Status: "denied", Reason: "not now", DecidedBy: "key:k"},
		event.TodosUpdatedPayload{Todos: []event.Todo{{ID: "1", Text: "find it", Status: "completed"}, {ID: "2", Text: "mend it", Status: "in_progress"}, {ID: "3", Text: "tell", Status: "pending"}}},
		event.SteeringReceivedPayload{Message: "be quick"},
		event.AssistantMessageDeltaPayload{Content: "Done.\n"},
		event.AssistantMessagePayload{Content: "Done.\n"},
		event.RunCompletedPayload{Output: "Done."},
	)
}

var ended = api.Run{
	ID: "run_1", Status: "completed", Steps: 3,
	UsageTotals: event.UsageTotals{PromptTokensTotal: 12000, CompletionTokensTotal: 345, TotalTokens: 12345},
	CostTotals:  event.CostTotals{CostUSDTotal: 0.01234, CostStatus: event.CostAvailable},
}

func TestAPipeGetsTheAnswerOnOutAndTheRestOnInfo(t *testing.T) {
	var out, info bytes.Buffer
	s := NewStream(Options{Out: &out, Info: &info})
	for _, ev := range story(t) {
		if err := s.Event(ev); err != nil {
			t.Fatal(err)
		}
	}
	s.End(ended)
	golden(t, "pipe_out", out.String())
	golden(t, "pipe_info", info.String())
}

func TestATerminalShowsTextAsItComesAndTheRunningCall(t *testing.T) {
	var term bytes.Buffer
	s := NewStream(Options{Out: &term, Info: &term, Live: true, Status: true, Style: Style{Color: true}})
	for _, ev := range story(t) {
		if err := s.Event(ev); err != nil {
			t.Fatal(err)
		}
	}
	s.End(ended)
	golden(t, "terminal", strings.ReplaceAll(strings.ReplaceAll(term.String(), "\x1b", "␛"), "\r", "␍"))
}

func TestQuietShowsTheAnswerAndTheEnd(t *testing.T) {
	var out, info bytes.Buffer
	s := NewStream(Options{Out: &out, Info: &info, Quiet: true})
	for _, ev := range story(t) {
		_ = s.Event(ev)
	}
	s.End(ended)
	if got := info.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "completed") {
		t.Errorf("info: %q", got)
	}
}

func TestApprovalCardShowsTheWholeCallAndNoTrick(t *testing.T) {
	var b bytes.Buffer
	long := strings.Repeat("x", 5000)
	args, _ := json.Marshal(map[string]string{"command": "echo \u202egnirts\u202c; rm -rf /\x07\ttab\nsecond\u200bline", "end": long})
	Approval(&b, event.Approval{
		ID: "ap_1", RunID: "run_1", Tool: "ba\u200bsh", Kind: "bash", Arguments: string(args), Cwd: "/w/\x1b[31m",
		Digest: "sha256:abc", Why: "approval policy destructive: bash can change things", Status: event.ApprovalPending,
		RequestedBy: "key:local", ExpiresAt: at.Add(72 * time.Hour),
	}, at, Style{})
	if !strings.Contains(b.String(), long) {
		t.Error("the arguments are cut")
	}
	golden(t, "approval", strings.ReplaceAll(b.String(), long, "<5000 x>"))
	for _, r := range b.String() {
		if r != '\n' && hidden(r) {
			t.Errorf("the card holds the hidden character %U", r)
		}
	}
}

func TestQuestionCard(t *testing.T) {
	var b bytes.Buffer
	Question(&b, event.Question{Header: "Colour", Question: "Which one?\nTake your time.", Options: []event.QuestionOption{{Label: "red", Description: "like a rose"}, {Label: "blue"}}}, Style{})
	golden(t, "question", b.String())
}

func TestTheEndSaysWhatIsKnownOfTheCost(t *testing.T) {
	for status, want := range map[event.CostStatus]string{
		event.CostAvailable: "$0.0123", event.CostUnpricedModel: "cost unknown", event.CostProviderUnreported: "at least $0.0123",
		event.CostPending: "not known yet",
	} {
		if got := Cost(event.CostTotals{CostUSDTotal: 0.0123, CostStatus: status}); !strings.Contains(got, want) {
			t.Errorf("%s: %q", status, got)
		}
	}
	for _, status := range []string{"failed", "cancelled", "waiting_for_approval", "waiting_for_user"} {
		var b bytes.Buffer
		NewStream(Options{Out: io.Discard, Info: &b}).End(api.Run{Status: status, Error: "boom", Steps: 1})
		if !strings.Contains(b.String(), "1 step ·") {
			t.Errorf("%s: %q", status, b.String())
		}
	}
}

func TestCallSummaries(t *testing.T) {
	for _, tt := range []struct{ tool, args, want string }{
		{"bash", `{"command":"ls\n-l"}`, "bash ls -l"},
		{"grep", `{"pattern":"x","path":"a"}`, "grep x in a"},
		{"todos", `{}`, "todos"},
		{"x", `{"n":1}`, `x {"n":1}`},
		{"x", `broken`, "x broken"},
		{"x\x1b", ``, `x\x1b`},
	} {
		if got := Call(tt.tool, tt.args); got != tt.want {
			t.Errorf("Call(%q, %q) = %q, want %q", tt.tool, tt.args, got, tt.want)
		}
	}
}

func TestALongDiffIsCutAndCounted(t *testing.T) {
	added, removed, lines := Diff(strings.Repeat("+a\n-b\n", 50), Style{})
	if added != 50 || removed != 50 || len(lines) != maxDiff+1 || !strings.Contains(lines[maxDiff], "76 more lines") {
		t.Errorf("%d, %d, %q", added, removed, lines)
	}
}

func TestNumbersAndTimes(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000"} {
		if got := Number(n); got != want {
			t.Errorf("Number(%d) = %q", n, got)
		}
	}
	for ms, want := range map[int64]string{0: "0ms", 999: "999ms", 2140: "2.1s", 184000: "3m04s", 7_260_000: "2h01m"} {
		if got := Duration(ms); got != want {
			t.Errorf("Duration(%d) = %q", ms, got)
		}
	}
	for d, want := range map[time.Duration]string{0: "now", time.Minute: "1m ago", -72 * time.Hour: "in 3d", 90 * time.Minute: "1h ago"} {
		if got := Ago(at.Add(-d), at); got != want {
			t.Errorf("Ago(%s) = %q", d, got)
		}
	}
}

func FuzzNothingHiddenIsPrinted(f *testing.F) {
	for _, s := range []string{"", "a\x1b[2Jb", "\u202e", "\xff\xfe", "a\r\nb", "\u200d", "\U000e0001", "é\u0301"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range Exact(s) {
			if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
				t.Fatalf("Exact(%q) holds %U", s, r)
			}
		}
		for _, r := range Text(s) {
			if unicode.IsControl(r) && r != '\n' && r != '\t' {
				t.Fatalf("Text(%q) holds %U", s, r)
			}
			if r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
				t.Fatalf("Text(%q) holds %U", s, r)
			}
		}
		if line := Line(s, 20); strings.Contains(line, "\n") || len([]rune(line)) > 20 {
			t.Fatalf("Line(%q) = %q", s, line)
		}
	})
}

func BenchmarkStreamDelta(b *testing.B) {
	data, _ := event.Encode("conv", event.Fact{Payload: event.AssistantMessageDeltaPayload{Content: "some words of an answer "}})
	ev := event.Event{RunID: "run_1", Type: event.AssistantMessageDelta, Payload: data}
	s := NewStream(Options{Out: io.Discard, Info: io.Discard, Live: true})
	b.ReportAllocs()
	for b.Loop() {
		_ = s.Event(ev)
	}
}
