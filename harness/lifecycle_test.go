package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/harness/harnesstest"
)

func TestRecordedStatesSurviveARoundTrip(t *testing.T) {
	files, _ := filepath.Glob("testdata/lifecycle/state/*.state.json")
	if len(files) != 13 {
		t.Fatalf("%d state files", len(files))
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		s, err := harness.DecodeLifecycleState(data)
		if err != nil {
			t.Errorf("%s: %v", f, err)
			continue
		}
		out, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		compareJSON(t, f, data, out)
	}
}

// What other writers make of nil and empty values. Where the TypeScript SDK fails on missing lists, we read them as
// empty, and write them; where it takes an unknown kind or no kind at all, we refuse.
func TestVariantsOfState(t *testing.T) {
	var variants []struct {
		Case   string          `json:"case"`
		State  json.RawMessage `json:"state"`
		Oracle struct {
			OK        bool              `json:"ok"`
			Message   string            `json:"message"`
			Name      string            `json:"name"`
			TurnState harness.TurnState `json:"turnState"`
		} `json:"oracle"`
	}
	load(t, "testdata/lifecycle/go-null-variants.json", &variants)
	ours := map[string]string{
		"turnSettings tools null":               "",
		"turnSettings missing skills and tools": "",
		"kind unknown":                          "Lifecycle state has an invalid record pendingToolApprovals[0]: kind is neither builtin nor custom.",
	}
	for _, v := range variants {
		t.Run(v.Case, func(t *testing.T) {
			s, err := harness.DecodeLifecycleState(v.State)
			want, differs := ours[v.Case]
			if !differs && !v.Oracle.OK {
				want = v.Oracle.Message
			}
			if want != "" {
				if err == nil || err.Error() != want {
					t.Fatalf("decoded %#v, %v, want %q", s, err, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			out, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			for _, bad := range []string{"null", `""`} {
				if strings.Contains(string(out), bad) {
					t.Errorf("%s in %s", bad, out)
				}
			}
			if strings.Contains(string(out), "turnSettings") && !(strings.Contains(string(out), `"skills":[]`) && strings.Contains(string(out), `"tools":[]`)) {
				t.Errorf("no lists in %s", out)
			}
			if !v.Oracle.OK {
				return
			}
			session, err := openState(t, s, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := session.TurnState(); got != v.Oracle.TurnState {
				t.Errorf("the session begins %s, recorded %s", got, v.Oracle.TurnState)
			}
		})
	}
}

func openState(t *testing.T, s harness.LifecycleState, validate func(json.RawMessage) error) (*harness.AgentSession, error) {
	t.Helper()
	id := "m"
	o := harness.CreateSessionOptions{SessionID: "s"}
	switch v := s.(type) {
	case *harness.ResumeSessionState:
		o.ResumeFrom = v
	case *harness.ContinueTurnState:
		o.ContinueFrom = v
	}
	a, err := harness.NewAgent(harness.AgentSettings{Harness: &harnesstest.Mock{ID: id, Validate: validate}, Sandbox: (&harnesstest.Sandbox{}).Provider(true)})
	if err != nil {
		t.Fatal(err)
	}
	return a.CreateSession(context.Background(), o)
}

func TestStateErrorsNeverHoldTheData(t *testing.T) {
	const secret = "tok-4711"
	states := []string{
		`{"type":"resume-session","harnessId":"m","specificationVersion":"harness-v1","data":{"token":"tok-4711"},"continueFrom":3}`,
		`{"type":"continue-turn","harnessId":"m","specificationVersion":"harness-v1","data":"tok-4711","turnSettings":"tok-4711"}`,
		`{"type":"continue-turn","harnessId":"m","specificationVersion":"harness-v1","data":"tok-4711","pendingToolApprovals":["tok-4711"]}`,
		`{"type":"continue-turn","harnessId":"m","specificationVersion":"harness-v1","data":{"a":"tok-4711"},"pendingToolResults":[{"toolCallId":"c","toolName":"n"}]}`,
		`{"type":"continue-turn","harnessId":7,"specificationVersion":"harness-v1","data":"tok-4711"}`,
		`{"type":"continue-turn","data":"tok-4711"`,
		`"tok-4711"`,
	}
	for _, s := range states {
		_, err := harness.DecodeLifecycleState([]byte(s))
		if err == nil || !harness.IsHarnessError(err) {
			t.Errorf("%s: %v", s, err)
		} else if strings.Contains(err.Error(), secret) || strings.Contains(harness.GetHarnessErrorMessage(err), secret) {
			t.Errorf("%s: the error holds the data: %v", s, err)
		}
	}
	st, err := harness.DecodeLifecycleState([]byte(`{"type":"resume-session","harnessId":"m","specificationVersion":"harness-v1","data":{"token":"tok-4711"}}`))
	if err != nil {
		t.Fatal(err)
	}
	_, err = openState(t, st, func(json.RawMessage) error { return errors.New("threadId is required") })
	if err == nil || err.Error() != "Lifecycle state failed schema validation for harness 'm': threadId is required" {
		t.Errorf("invalid data: %v", err)
	}
}

func TestPendingRecordsAreTakenAsTheyAreOnRequest(t *testing.T) {
	data := []byte(`{"type":"continue-turn","harnessId":"m","specificationVersion":"harness-v1","pendingToolApprovals":[{"nope":true}]}`)
	if _, err := harness.DecodeLifecycleState(data); err == nil {
		t.Error("an invalid record was accepted")
	}
	if _, err := harness.DecodeLifecycleStateWithOptions(data, harness.DecodeLifecycleOptions{AllowInvalidPending: true}); err != nil {
		t.Error(err)
	}
}

func TestCompletedResultsKeepTheirValues(t *testing.T) {
	in := `{"type":"continue-turn","harnessId":"m","specificationVersion":"harness-v1","pendingToolResults":[` +
		`{"toolCallId":"a","toolName":"x","input":"{}","providerOptions":{"p":{"n":12345678901234567890}},"completedResult":{"output":12345678901234567890,"isError":true}},` +
		`{"toolCallId":"b","toolName":"x","input":"{}","completedResult":{"output":null}},` +
		`{"toolCallId":"c","toolName":"x","input":"{}","completedResult":{}}]}`
	s, err := harness.DecodeLifecycleState([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(s)
	if err != nil || string(out) != in {
		t.Errorf("%v\n in %s\nout %s", err, in, out)
	}
	for i, p := range s.(*harness.ContinueTurnState).PendingToolResults {
		if p.CompletedResult == nil {
			t.Errorf("result %d does not count as completed", i)
		}
	}
}

func TestCollectedContinuationsAreAsRecorded(t *testing.T) {
	var cases []struct {
		Case      string            `json:"case"`
		Messages  []ai.Message      `json:"messages"`
		Approvals json.RawMessage   `json:"approvals"`
		Results   []json.RawMessage `json:"results"`
	}
	load(t, "testdata/errors/continuations.json", &cases)
	for _, c := range cases {
		t.Run(c.Case, func(t *testing.T) {
			approvals, err := harness.CollectToolApprovalContinuations(c.Messages)
			var failed struct{ Error, Name string }
			if json.Unmarshal(c.Approvals, &failed) == nil {
				if err == nil || err.Error() != failed.Error || !harness.IsHarnessError(err) {
					t.Errorf("error %v, recorded %q", err, failed.Error)
				}
			} else {
				parts := []json.RawMessage{}
				for _, a := range approvals {
					b, _ := ai.MarshalPart(a)
					parts = append(parts, b)
				}
				compareJSON(t, "approvals", c.Approvals, rawJSON(parts))
			}
			results := []json.RawMessage{}
			for _, r := range harness.CollectToolResultContinuations(c.Messages) {
				b, _ := ai.MarshalPart(r)
				results = append(results, b)
			}
			compareJSON(t, "results", rawJSON(c.Results), rawJSON(results))
		})
	}
}

// A state that decodes encodes to what decodes to the same state.
func FuzzLifecycleState(f *testing.F) {
	files, _ := filepath.Glob("testdata/lifecycle/state/*.state.json")
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := harness.DecodeLifecycleState(data)
		if err != nil {
			return
		}
		out, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		again, err := harness.DecodeLifecycleState(out)
		if err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		twice, err := json.Marshal(again)
		if err != nil || string(out) != string(twice) {
			t.Fatalf("%s, then %s (%v)", out, twice, err)
		}
	})
}
