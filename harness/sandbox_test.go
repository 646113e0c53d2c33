package harness_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/harness-go/harness/agent"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/harness/harnesstest"
	"github.com/harness-go/harness/sandbox"
	"github.com/harness-go/harness/sandbox/local"
)

func TestASandboxInPlaceIsMadeOnFirstUse(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	counted := &countedProvider{Provider: local.NewProvider(local.Options{})}
	readIt := false
	var ready []string
	b := newBench(t, func(t *harnesstest.Turn) error {
		if !readIt {
			return textScript(t)
		}
		s := t.Start.SandboxSession
		text, err := s.ReadTextFile(t.Context(), "a.txt", sandbox.ReadTextOptions{})
		if err != nil {
			return err
		}
		f, err := s.(sandbox.Files).Open(t.Context(), "a.txt")
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		if r := s.(sandbox.Reporter).Report(); r.Scope != sandbox.ScopeUnrestricted {
			return errors.New("the report is not the session's")
		}
		say(t, "1", text+" "+s.(sandbox.Files).Display(filepath.Join(t.Start.SessionWorkDir, "a.txt")))
		end(t)
		return nil
	}, func(s *harness.AgentSettings) {
		s.Sandbox = counted
		s.SandboxConfig = harness.AgentSandboxConfig{InPlace: true, InPlaceRoot: dir, OnSession: func(_ context.Context, s sandbox.Session, workDir string) error {
			ready = append(ready, workDir)
			if _, ok := s.(sandbox.NetworkSession); ok {
				return errors.New("the session is not restricted")
			}
			return nil
		}}
	})
	if b.s.GetSessionWorkDir() != dir {
		t.Errorf("the session works in %s", b.s.GetSessionWorkDir())
	}
	b.mustGenerate()
	if counted.made != 0 {
		t.Fatalf("a turn without tools made %d sandboxes", counted.made)
	}
	readIt = true
	for range 2 {
		if r := b.mustGenerate(); r.Text != "hello a.txt" {
			t.Errorf("read %q", r.Text)
		}
	}
	if counted.made != 1 || !slices.Equal(ready, []string{dir}) {
		t.Errorf("%d sandboxes, ready %v", counted.made, ready)
	}
	sb := b.s.GetSandboxSession()
	if err := b.s.Destroy(b.ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := sb.ReadBinaryFile(b.ctx, "a.txt"); !errors.Is(err, sandbox.ErrEnded) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "a.txt")); err != nil {
		t.Errorf("the user's folder was touched: %v", err)
	}
}

type countedProvider struct {
	sandbox.Provider
	made int
}

func (p *countedProvider) CreateSession(ctx context.Context, o sandbox.CreateOptions) (sandbox.NetworkSession, error) {
	p.made++
	return p.Provider.CreateSession(ctx, o)
}

func TestSandboxSettingsAreChecked(t *testing.T) {
	for _, c := range []harness.AgentSandboxConfig{{InPlace: true}, {InPlace: true, InPlaceRoot: "rel"}, {InPlaceRoot: "/x"}} {
		if _, err := harness.NewAgent(harness.AgentSettings{Harness: &harnesstest.Mock{}, SandboxConfig: c}); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}

func TestACallersSandboxIsNeverEnded(t *testing.T) {
	log := &harnesstest.Log{}
	own, err := (&harnesstest.Sandbox{Dir: "/mine", Log: log}).CreateSession(context.Background(), sandbox.CreateOptions{SessionID: "x"})
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, textScript, nil)
	for name, given := range map[string]sandbox.Session{"network": own, "basic": struct{ sandbox.Session }{own}} {
		for _, end := range []func(*harness.AgentSession) error{
			func(s *harness.AgentSession) error { _, err := s.Stop(b.ctx); return err },
			func(s *harness.AgentSession) error { return s.Destroy(b.ctx) },
		} {
			s, err := b.agent.CreateSession(b.ctx, harness.CreateSessionOptions{SessionID: "y", SandboxSession: given})
			if err != nil {
				t.Fatal(err)
			}
			if s.GetSessionWorkDir() != "/mine/mock-y" {
				t.Errorf("%s: works in %s", name, s.GetSessionWorkDir())
			}
			if err := end(s); err != nil {
				t.Error(err)
			}
		}
	}
	if n := log.Names(); !slices.Equal(n, []string{"createSession"}) {
		t.Errorf("calls %v", n)
	}
}

func TestAFailedStartStopsTheOwnedSandbox(t *testing.T) {
	log := &harnesstest.Log{}
	a, err := harness.NewAgent(harness.AgentSettings{Harness: failing{&harnesstest.Mock{}}, Sandbox: (&harnesstest.Sandbox{Log: log}).Provider(true)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.CreateSession(context.Background(), harness.CreateSessionOptions{}); err == nil {
		t.Fatal("no error")
	}
	if n := log.Names(); !slices.Equal(n, []string{"createSession", "sandbox.stop"}) {
		t.Errorf("calls %v", n)
	}
}

type failing struct{ *harnesstest.Mock }

func (failing) DoStart(context.Context, harness.StartOptions) (harness.AdapterSession, error) {
	return nil, errors.New("no runtime")
}

func TestSessionsBelongToTheirAgent(t *testing.T) {
	one, two := newBench(t, textScript, nil), newBench(t, textScript, nil)
	for _, o := range []agent.AgentGenerateOptions{{Prompt: "x"}, {Prompt: "x", HarnessSession: two.s}, {Prompt: "x", HarnessSession: (*harness.AgentSession)(nil)}} {
		if _, err := one.agent.Generate(one.ctx, o); err == nil {
			t.Error("the turn was started")
		}
	}
}
