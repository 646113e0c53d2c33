package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/buildinfo"
)

// person sits at a terminal: sees what is written and types.
type person struct {
	t      *testing.T
	app    *app
	typing *io.PipeWriter
	ctrlC  chan os.Signal

	mu   sync.Mutex
	cond *sync.Cond
	seen bytes.Buffer
	from int // what was read so far
	exit chan int
}

// Write takes what the program writes.
func (p *person) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cond.Broadcast()
	return p.seen.Write(b)
}

func sit(t *testing.T) *person {
	t.Helper()
	state, err := os.MkdirTemp("", "ht")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(state) })
	in, typing := io.Pipe()
	p := &person{t: t, typing: typing, ctrlC: make(chan os.Signal), exit: make(chan int, 1)}
	p.cond = sync.NewCond(&p.mu)
	p.app = &app{
		in: in, out: p, err: p, inTerminal: true, interrupts: &interrupts{ch: p.ctrlC}, now: time.Now, dir: t.TempDir(),
		env: []string{"HARNESS_STATE_DIR=" + state, "HARNESS_PROVIDER=fake"}, userDir: t.TempDir(), build: buildinfo.Read(),
	}
	t.Cleanup(func() { _ = typing.Close() })
	return p
}

// start runs the program.
func (p *person) start(args ...string) {
	go func() { p.exit <- p.app.main(context.Background(), args) }()
}

// reads waits until the program wrote the text after what was read before.
func (p *person) reads(text string) {
	p.t.Helper()
	timeout := time.AfterFunc(20*time.Second, p.cond.Broadcast)
	defer timeout.Stop()
	deadline := time.Now().Add(20 * time.Second)
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if i := strings.Index(p.seen.String()[p.from:], text); i >= 0 {
			p.from += i + len(text)
			return
		}
		if !time.Now().Before(deadline) {
			p.t.Fatalf("%q was not written; what was:\n%s", text, p.seen.String()[p.from:])
		}
		p.cond.Wait()
	}
}

func (p *person) types(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.typing, line+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

func (p *person) ends(code int) {
	p.t.Helper()
	select {
	case got := <-p.exit:
		if got != code {
			p.t.Fatalf("exit code %d, want %d; what was written:\n%s", got, code, p.seen.String())
		}
	case <-time.After(20 * time.Second):
		p.mu.Lock()
		defer p.mu.Unlock()
		p.t.Fatalf("the program does not end; what was written:\n%s", p.seen.String())
	}
}

func (p *person) has(name string) bool {
	_, err := os.Stat(filepath.Join(p.app.dir, name))
	return err == nil
}

func TestAPersonApprovesAtTheTerminal(t *testing.T) {
	p := sit(t)
	p.start("run", "--approval", "all", `go @@[{"tool":"bash","in":{"command":"touch yes"}},{"text":"it is done"}]@@`)
	p.reads(`"command": "touch yes"`)
	p.reads("[w]ait, leave it pending > ")
	p.types("what?")
	p.reads("[w]ait, leave it pending > ")
	if p.has("yes") {
		t.Error("it ran without an answer")
	}
	p.types("a")
	p.reads("✓ approved")
	p.reads("it is done")
	p.ends(ExitOK)
	if !p.has("yes") {
		t.Error("it did not run")
	}
}

func TestAPersonDeniesWithAReason(t *testing.T) {
	p := sit(t)
	p.start("run", "--approval", "all", `go @@[{"tool":"bash","in":{"command":"touch no"}},{"text":"understood"}]@@`)
	p.reads("pending > ")
	p.types("d")
	p.reads("reason")
	p.types("not on a Friday")
	p.reads("not on a Friday")
	p.reads("understood")
	p.ends(ExitOK)
	if p.has("no") {
		t.Error("it ran")
	}
}

func TestASessionApprovalIsNotAskedAgain(t *testing.T) {
	p := sit(t)
	call := `{"tool":"bash","in":{"command":"echo x >> n"}}`
	p.start("run", "--approval", "all", `go @@[`+call+`,`+call+`,{"text":"twice"}]@@`)
	p.reads("pending > ")
	p.types("s")
	p.reads("twice")
	p.ends(ExitOK)
	if data, _ := os.ReadFile(filepath.Join(p.app.dir, "n")); string(data) != "x\nx\n" {
		t.Errorf("ran %q", data)
	}
}

func TestAPersonLeavesACallPendingAndComesBack(t *testing.T) {
	p := sit(t)
	p.start("run", "--approval", "all", `go @@[{"tools":[{"tool":"bash","in":{"command":"touch a"}},{"tool":"bash","in":{"command":"touch b"}}]},{"text":"both"}]@@`)
	p.reads("touch a")
	p.reads("pending > ")
	p.types("w")
	p.reads("follow with:  harness runs watch ")
	p.ends(ExitWaiting)
	run := strings.TrimSpace(strings.SplitN(p.seen.String()[p.from:], "\n", 2)[0])

	p.start("runs", "watch", run)
	p.reads("pending > ")
	p.types("approve")
	p.reads("pending > ")
	p.types("approve")
	p.reads("both")
	p.ends(ExitOK)
	if !p.has("a") || !p.has("b") {
		t.Error("not both ran")
	}
}

func TestTheEndOfTheInputLeavesWhatIsPending(t *testing.T) {
	p := sit(t)
	p.start("run", "--approval", "all", `go @@[{"tool":"bash","in":{"command":"touch no"}}]@@`)
	p.reads("pending > ")
	_ = p.typing.Close()
	p.ends(ExitWaiting)
	if p.has("no") {
		t.Error("it ran")
	}
}

func TestAnAnswerFromElsewhereEndsThePrompt(t *testing.T) {
	p := sit(t)
	p.start("run", "--approval", "all", `go @@[{"tool":"bash","in":{"command":"touch yes"}},{"text":"fine"}]@@`)
	p.reads("needs approval ")
	p.mu.Lock()
	id := strings.Fields(p.seen.String()[p.from:])[0]
	p.mu.Unlock()
	p.reads("pending > ")
	other := *p.app
	other.out, other.err, other.inTerminal, other.lines = io.Discard, io.Discard, false, nil
	if code := other.main(t.Context(), []string{"approvals", "approve", id}); code != ExitOK {
		t.Fatalf("the other command ended with %d", code)
	}
	p.reads("answered elsewhere")
	p.reads("fine")
	p.ends(ExitOK)
}

const ask = `go @@[{"tool":"AskUserQuestion","in":{"questions":[` +
	`{"question":"Which colour?","header":"Colour","options":[{"label":"red","description":"warm"},{"label":"blue","description":"cold"}]},` +
	`{"question":"Which sizes?","header":"Size","multiSelect":true,"options":[{"label":"small","description":""},{"label":"large","description":""}]}]}},{"text":"noted"}]@@`

func TestAPersonAnswersQuestionsAtTheTerminal(t *testing.T) {
	p := sit(t)
	p.start("run", ask)
	p.reads("1) red — warm")
	p.reads("pending > ")
	p.types("3")
	p.reads("there is no option 3")
	p.types("2")
	p.reads("Which sizes?")
	p.reads("pending > ")
	p.types("1, huge")
	p.reads("noted")
	p.ends(ExitOK)
	p.start("runs", "list", "--json")
	p.ends(ExitOK)

	var out bytes.Buffer
	p.app.out = &out
	_, rest, _ := strings.Cut(p.seen.String(), "run run_")
	id, _, _ := strings.Cut(rest, " ")
	p.start("runs", "watch", "--json", "run_"+id)
	p.ends(ExitOK)
	for _, want := range []string{"blue", "small", "huge"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log does not hold the answer %q", want)
		}
	}
}

func TestAQuestionCanBeLeftPending(t *testing.T) {
	p := sit(t)
	p.start("run", ask)
	p.reads("pending > ")
	p.types("/wait")
	p.reads("harness questions answer run_")
	p.ends(ExitWaiting)
}

func TestCtrlCCancelsTheRunOnceAndLeavesItTwice(t *testing.T) {
	p := sit(t)
	p.start("run", `go @@[{"text":"a b c d e f g h i j k l m n o p q r s t u v w x y z","slow":1000},{"text":"end"}]@@`)
	p.reads("run run_")
	p.ctrlC <- os.Interrupt
	p.reads("cancelling the run")
	p.reads("✗ cancelled")
	p.ends(ExitCancelled)

	p.start("run", "--approval", "all", `go @@[{"tool":"bash","in":{"command":"touch no"}}]@@`)
	p.reads("pending > ")
	p.ctrlC <- os.Interrupt
	p.reads("✗ cancelled")
	p.ends(ExitCancelled)
}

func TestCtrlCWhileWatchingChangesNothing(t *testing.T) {
	p := sit(t)
	p.start("run", "--approval", "all", `go @@[{"tool":"bash","in":{"command":"touch x"}},{"text":"later"}]@@`)
	p.reads("pending > ")
	p.types("w")
	p.reads("harness runs watch ")
	p.ends(ExitWaiting)
	run := strings.Fields(p.seen.String()[p.from:])[0]
	p.start("runs", "watch", run)
	p.reads("pending > ")
	p.ctrlC <- os.Interrupt
	p.reads("stopped watching")
	p.ends(ExitInterrupted)
	p.start("approvals", "approve", run)
	p.reads("later")
	p.ends(ExitOK)
}

func TestARunGoesOnHereWhenTheProcessThatHadItEnds(t *testing.T) {
	first := sit(t)
	first.start("run", "--approval", "all", `go @@[{"tool":"bash","in":{"command":"touch x"}},{"text":"carried on"}]@@`)
	first.reads("run run_")
	first.mu.Lock()
	run := "run_" + strings.Fields(first.seen.String()[first.from:])[0]
	first.mu.Unlock()
	first.reads("pending > ")

	second := sit(t)
	second.app.env, second.app.dir = first.app.env, first.app.dir
	second.start("runs", "watch", run)
	second.reads("pending > ")
	first.types("w")
	first.ends(ExitWaiting)
	second.reads("it goes on here")
	second.types("a")
	second.reads("carried on")
	second.ends(ExitOK)
}

func TestTrustIsGivenAtTheTerminal(t *testing.T) {
	p := sit(t)
	if err := os.MkdirAll(filepath.Join(p.app.dir, ".harness"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.app.dir, ".harness", "harness.yaml"), []byte("max_steps: 3 # \x1b[2J\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p.start("trust")
	p.reads(`max_steps: 3 # \x1b[2J`)
	p.reads("> ")
	p.types("n")
	p.ends(ExitCancelled)
	p.start("trust")
	p.reads("> ")
	p.types("y")
	p.reads("trusted: ")
	p.ends(ExitOK)
	p.start("trust")
	p.reads("already trusted")
	p.ends(ExitOK)
}

func TestChoose(t *testing.T) {
	one := event.Question{Options: []event.QuestionOption{{Label: "red"}, {Label: "blue"}}}
	many := one
	many.MultiSelect = true
	for _, tt := range []struct {
		q    event.Question
		text string
		want string
	}{
		{one, "1", "red"}, {one, "green, dark", "green, dark"}, {many, "1,2", "red|blue"}, {many, " 2 , other ", "blue|other"},
		{one, "", "!"}, {one, "0", "!"}, {one, "3", "!"}, {many, ",", "!"}, {event.Question{}, "7", "7"},
	} {
		got, err := choose(tt.q, tt.text)
		if s := strings.Join(got, "|"); (err != nil) != (tt.want == "!") || (err == nil && s != tt.want) {
			t.Errorf("choose(%q) = %q, %v; want %q", tt.text, s, err, tt.want)
		}
	}
}
