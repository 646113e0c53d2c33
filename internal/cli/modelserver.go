package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/harness-go/harness/model/scripted"
)

func (a *app) modelServerCommand() *cobra.Command {
	var addr, log, sub string
	cmd := &cobra.Command{
		Use: "model-server", Short: "Serve the scripted model over four vendors' wires", Args: cobra.NoArgs,
		Long: `Serve a deterministic model that answers as the prompt says, for tests without a key and
without a network:

  any text @@[ {"tool":"bash","in":{"command":"ls"}}, {"text":"done"} ]@@ any text

Point a client at http://ADDR/v1 (Chat Completions and OpenAI Responses: OPENAI_BASE_URL),
http://ADDR (Anthropic Messages: ANTHROPIC_BASE_URL) or http://ADDR/v1beta (Gemini:
GEMINI_BASE_URL).`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return a.modelServer(ctx, addr, log, sub)
		},
	}
	cmd.Flags().StringVar(&addr, "addr", "127.0.0.1:8099", "address; port 0 picks a free one")
	cmd.Flags().StringVar(&log, "log", "", "file to append one JSON line for each request to, keys redacted")
	cmd.Flags().StringVar(&sub, "sub", "", "steps for prompts that hold $$sub$$")
	return cmd
}

func (a *app) modelServer(ctx context.Context, addr, log, sub string) error {
	o := scripted.ServerOptions{Options: scripted.Options{Sub: sub}, Out: a.out}
	if log != "" {
		f, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return usageError("--log: %w", err)
		}
		defer f.Close()
		o.Log = f
	}
	return scripted.Serve(ctx, addr, o)
}
