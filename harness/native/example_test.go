package native_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/harness-go/harness/agent"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/model/scripted"
	"github.com/harness-go/harness/sandbox/local"
)

// A session with a model whose answers are written in the prompt, so that it runs without a key.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	m, err := scripted.New(scripted.Options{})
	if err != nil {
		log.Fatal(err)
	}
	loop, err := native.New(native.Settings{Resolve: func(string) ([]native.Target, error) {
		return []native.Target{{Model: m, Provider: scripted.Provider, ModelID: "any"}}, nil
	}})
	if err != nil {
		log.Fatal(err)
	}
	a, err := harness.NewAgent(harness.AgentSettings{
		Harness: loop, Sandbox: local.NewProvider(local.Options{}),
		SandboxConfig: harness.AgentSandboxConfig{InPlace: true, InPlaceRoot: dir},
	})
	if err != nil {
		log.Fatal(err)
	}
	session, err := a.CreateSession(ctx, harness.CreateSessionOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = session.Destroy(ctx) }()

	result, err := a.Generate(ctx, agent.AgentGenerateOptions{HarnessSession: session, Prompt: `Add a README.
		@@[{"tool":"write","in":{"path":"README.md","content":"# Hello\n"}}, {"text":"Done."}]@@`})
	if err != nil {
		log.Fatal(err)
	}
	readme, err := os.ReadFile(dir + "/README.md")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s %s", result.Text, readme)
	// Output: Done. # Hello
}
