package cli

import (
	"context"
	"crypto/rand"
	"io"
	"math"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/tool"
)

type runFlags struct {
	workspace, model, provider, approval, sandbox, network, conversation, system, effort string
	allowTools, denyTools, hosts, attach, fallbacks                                      []string
	maxSteps                                                                             int
	maxCost                                                                              float64
	maxTokens                                                                            int64
	timeout                                                                              time.Duration
	approveAll, quiet, detach                                                            bool
}

// maxPrompt bounds a prompt that is read from standard input, in bytes. The engine has its own bound.
const maxPrompt = 4 << 20

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] PROMPT",
		Short: "Run an agent on a prompt and show what it does",
		Long: `Run an agent on a prompt and show what it does.

The answer goes to standard output, everything else to standard error. Calls that need
approval, and questions of the agent, are asked at the terminal; without a terminal the
command tells how to answer and ends with code 4, and the run waits at no cost.

Ctrl-C cancels the run; a second Ctrl-C leaves it as it is. A prompt of "-" is read from
standard input.

` + exitHelp,
		Example: `  harness run "make the failing test pass"
  harness run -C ./repo --approval destructive --max-cost 0.50 "update the docs"
  harness run --attach screenshot.png "why does it look like this?"
  git diff | harness run -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd.Context(), f, strings.Join(args, " ")) },
	}
	fs := cmd.Flags()
	fs.StringVarP(&f.workspace, "workspace", "C", "", "folder that the agent works in (default: the current one)")
	fs.StringVar(&f.model, "model", "", "model (default: the configured one)")
	fs.StringVar(&f.provider, "provider", "", "model provider; fake plays scripts and needs no key")
	fs.StringArrayVar(&f.fallbacks, "fallback", nil, "provider that takes over after a failed call, or provider/model; can be repeated")
	fs.StringVar(&f.approval, "approval", "", "calls that wait for a person: none, destructive or all")
	fs.StringVar(&f.sandbox, "sandbox", "", "where processes live: unrestricted, local or workspace")
	fs.StringVar(&f.network, "network", "", "what the run reaches: allow, hosts or deny")
	fs.StringArrayVar(&f.hosts, "allow-host", nil, "host for --network hosts; can be repeated")
	fs.StringArrayVar(&f.allowTools, "allow-tool", nil, "tool that the agent may use, no others; can be repeated")
	fs.StringArrayVar(&f.denyTools, "deny-tool", nil, "tool that the agent may not use; can be repeated")
	fs.IntVar(&f.maxSteps, "max-steps", 0, "end the run after so many steps")
	fs.Float64Var(&f.maxCost, "max-cost", 0, "end the run before it costs more, in US dollars")
	fs.Int64Var(&f.maxTokens, "max-tokens", 0, "end the run before it uses more tokens")
	fs.DurationVar(&f.timeout, "timeout", 0, "end the run after so much working time, such as 10m")
	fs.StringVar(&f.conversation, "conversation", "", "conversation that the run belongs to")
	fs.StringVar(&f.system, "system-prompt", "", "text in the place of the default system prompt")
	fs.StringVar(&f.effort, "reasoning-effort", "", "how much the model thinks, where it has such a setting")
	fs.StringArrayVar(&f.attach, "attach", nil, "image, PDF or text that the model sees with the prompt; can be repeated")
	fs.BoolVar(&f.approveAll, "approve-all", false, "approve every call without asking; each approval is recorded as such")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "show only the answer and the end")
	fs.BoolVar(&f.detach, "detach", false, "start the run on a daemon, print its id and end")
	return cmd
}

func (a *app) run(ctx context.Context, f runFlags, prompt string) error {
	req, dir, err := a.request(f, prompt)
	if err != nil {
		return err
	}
	flags := map[string]string{"workspace": dir, "model": f.model, "provider": f.provider}
	l, err := a.connect(ctx, toExecute, flags)
	if err != nil {
		return err
	}
	defer l.close()
	if l.remote && f.workspace == "" {
		req.Workspace = "" // our folder means nothing on another machine
	}
	if f.detach && l.node != nil {
		return usageError("--detach needs a daemon that goes on with the run: start one with harness serve, or name one with --server")
	}
	// The key makes a repeated request, after a lost answer, the same run.
	accepted, err := l.CreateRun(ctx, req, "cli-"+strings.ToLower(rand.Text()))
	if err != nil {
		return err
	}
	if f.detach {
		if a.json {
			return a.print(accepted)
		}
		_, err := io.WriteString(a.out, accepted.RunID+"\n")
		return err
	}
	fo := &follow{app: a, link: l, runID: accepted.RunID, owner: true, approveAll: f.approveAll, quiet: f.quiet, flags: flags}
	defer func() { fo.link.close() }()
	return fo.run(ctx)
}

// request checks the flags. What the engine checks better is left to it.
func (a *app) request(f runFlags, prompt string) (engine.RunRequest, string, error) {
	if prompt == "-" {
		data, err := io.ReadAll(io.LimitReader(a.in, maxPrompt+1))
		if err != nil {
			return engine.RunRequest{}, "", usageError("prompt from standard input: %w", err)
		}
		if len(data) > maxPrompt {
			return engine.RunRequest{}, "", usageError("prompt from standard input: more than %d bytes", maxPrompt)
		}
		prompt = string(data)
		a.inTerminal = false // the input is used up
	}
	if strings.TrimSpace(prompt) == "" {
		return engine.RunRequest{}, "", usageError("the prompt is empty")
	}
	if f.timeout < 0 || f.timeout > math.MaxInt32*time.Second {
		return engine.RunRequest{}, "", usageError("--timeout: %s is out of range", f.timeout)
	}
	dir := f.workspace
	if dir == "" {
		dir = a.dir
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(a.dir, dir)
	}
	req := engine.RunRequest{
		Prompt: prompt, Workspace: dir, Model: f.model, ProviderName: f.provider, ConversationID: f.conversation,
		SystemPrompt: f.system, ReasoningEffort: f.effort, AllowedTools: f.allowTools, DeniedTools: f.denyTools,
		FallbackProviders: f.fallbacks,
		MaxSteps:          f.maxSteps, MaxCostUSD: f.maxCost, MaxTokensTotal: f.maxTokens,
		TimeoutSeconds: int((f.timeout + time.Second - 1) / time.Second),
	}
	var err error
	if req.Attachments, err = a.attachments(f.attach); err != nil {
		return engine.RunRequest{}, "", err
	}
	if f.approval != "" || f.sandbox != "" || f.network != "" || len(f.hosts) > 0 {
		p := tool.PermissionConfig{
			Sandbox: tool.SandboxScope(f.sandbox), Approval: tool.ApprovalPolicy(f.approval),
			Network: tool.NetworkPolicy(f.network), AllowedHosts: f.hosts,
		}
		if p.Network == "" && len(f.hosts) > 0 {
			p.Network = tool.NetworkPolicyHosts
		}
		req.Permissions = &p
	}
	return req, dir, nil
}
