package native_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/harness-go/harness/agent"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/model/scripted"
	"github.com/harness-go/harness/sandbox/local"
)

// benchmarkTurns runs turns of a prompt, each in a session of its own.
func benchmarkTurns(b *testing.B, prompt string) {
	m, err := scripted.New(scripted.Options{})
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	r := &rig{t: b, dir: dir}
	r.write("f.txt", strings.Repeat("a line of the file that is read\n", 170))
	box := local.NewProvider(local.Options{})
	h, err := native.New(native.Settings{Resolve: func(string) ([]native.Target, error) {
		return []native.Target{{Model: m, Provider: scripted.Provider, ModelID: "any"}}, nil
	}})
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		a, err := harness.NewAgent(harness.AgentSettings{
			Harness: h.With(func(s *native.Settings) { s.Transcript = &native.MemoryTranscript{} }), Sandbox: box,
			SandboxConfig: harness.AgentSandboxConfig{InPlace: true, InPlaceRoot: dir},
		})
		if err != nil {
			b.Fatal(err)
		}
		s, err := a.CreateSession(b.Context(), harness.CreateSessionOptions{SessionID: fmt.Sprint("s", n)})
		if err != nil {
			b.Fatal(err)
		}
		res, err := a.Generate(b.Context(), agent.AgentGenerateOptions{HarnessSession: s, Prompt: prompt})
		if err != nil || res.Text != "ok" {
			b.Fatal(res, err)
		}
		if err := s.Destroy(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTextTurn(b *testing.B) { benchmarkTurns(b, "SCRIPT: text=ok") }
func BenchmarkTenReads(b *testing.B) {
	benchmarkTurns(b, `SCRIPT: seq=10:read:{"path":"f.txt"} text=ok`)
}
func BenchmarkTenReadsAtOnce(b *testing.B) {
	benchmarkTurns(b, `SCRIPT: par=10:read:{"path":"f.txt"} text=ok`)
}

// A long turn costs each step as much as a short one's, but for the model's own reading.
func BenchmarkThousandSteps(b *testing.B) {
	benchmarkTurns(b, `SCRIPT: seq=1000:glob:{"pattern":"*.none"} text=ok`)
}
