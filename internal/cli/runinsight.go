package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/cli/render"
	"github.com/harness-go/harness/tool"
)

func (a *app) runsSummary() *cobra.Command {
	return &cobra.Command{
		Use: "summary RUN", Short: "Tell what a run did and used, so far if it has not ended", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), toRead, func(l *link) error {
				s, err := l.Summary(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if a.json {
					return a.print(s)
				}
				a.showSummary(s)
				return nil
			})
		},
	}
}

func (a *app) showSummary(s api.RunSummary) {
	w := tabwriter.NewWriter(a.out, 2, 8, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, value)
		}
	}
	row("run", render.Line(s.RunID, 100))
	row("status", render.Line(s.Status, 40))
	row("reason", render.Line(s.Reason, 100))
	row("error", render.Line(s.Error, 1000))
	row("took", render.Duration(s.DurationMS))
	row("steps", fmt.Sprint(s.StepsTaken))
	calls := fmt.Sprint(s.ModelCalls)
	if s.DiscardedAttempts > 0 {
		calls += fmt.Sprintf(", %d of them discarded", s.DiscardedAttempts)
	}
	row("model calls", calls)
	row("tokens", fmt.Sprintf("%s in, %s out, %.0f%% of the prompts from the cache",
		render.Number(s.TotalPromptTokens), render.Number(s.TotalCompletionTokens), 100*s.CacheHitRate))
	row("cost", strings.TrimPrefix(render.Cost(event.CostTotals{CostUSDTotal: s.TotalCostUSD, CostStatus: s.CostStatus}), "cost "))
	row("tool calls", fmt.Sprint(s.ToolCallsTotal))
	_ = w.Flush()
	if len(s.ToolCalls) == 0 {
		return
	}
	fmt.Fprintln(a.out)
	a.table("STEP\tTOOL\tTOOK\tOUTCOME", func(w io.Writer) {
		for _, c := range s.ToolCalls {
			outcome := c.Status
			if c.Error != "" {
				outcome += ": " + c.Error
			}
			fmt.Fprintf(w, "%d\t%s\t%s\t%s\n", c.Step, render.Line(c.ToolName, 64), render.Duration(c.DurationMS), render.Line(outcome, 100))
		}
	})
	if more := s.ToolCallsTotal - len(s.ToolCalls); more > 0 {
		a.infof("%d further calls are in the log: harness runs export %s", more, render.Line(s.RunID, 100))
	}
}

func (a *app) runsContext() *cobra.Command {
	return &cobra.Command{
		Use: "context RUN", Short: "Tell how full the context of a run's session is", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), toRead, func(l *link) error {
				c, err := l.Context(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if a.json {
					return a.print(c)
				}
				tokens := render.Number(c.Tokens)
				if c.Estimated {
					tokens = "about " + tokens
				}
				if c.Window > 0 {
					tokens += fmt.Sprintf(" of %s (%.0f%%)", render.Number(c.Window), 100*c.Pressure)
				} else {
					tokens += "; the model's window is not known"
				}
				w := tabwriter.NewWriter(a.out, 2, 8, 2, ' ', 0)
				fmt.Fprintf(w, "tokens\t%s\nmessages\t%d\ncompactions\t%d\n", tokens, c.Messages, c.Compactions)
				return w.Flush()
			})
		},
	}
}

func (a *app) runsCompact() *cobra.Command {
	var req api.CompactRequest
	var mode string
	cmd := &cobra.Command{
		Use: "compact RUN", Short: "Make the history of an active run shorter", Args: cobra.ExactArgs(1),
		Long: `Make the history of an active run shorter, before its next model call. Nothing is removed from the log.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			req.Mode = tool.CompactMode(mode)
			return a.with(cmd.Context(), toExecute, func(l *link) error {
				r, err := l.GetRun(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if err := l.Compact(cmd.Context(), args[0], req); err != nil {
					return err
				}
				if a.json {
					if err := a.print(map[string]string{"run_id": args[0], "status": "accepted"}); err != nil {
						return err
					}
				} else {
					a.infof("the run does it before its next model call")
				}
				return a.carryOn(cmd.Context(), l, args[0], r.LastSeq, nil)
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&mode, "mode", "", "strip (leave long outputs out), summarize (older messages become a summary) or hybrid (default: the node's setting)")
	fs.IntVar(&req.KeepLast, "keep-last", 0, "so many of the newest messages stay as they are, at least 2 (default: the node's setting)")
	fs.StringVar(&req.Instructions, "instructions", "", "what the summary should keep")
	return cmd
}

func (a *app) runsTodos() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "todos RUN", Short: "Show or replace the todo list of a run", Args: cobra.ExactArgs(1),
		Long: `Show the todo list of a run, or replace that of an active run by the JSON list of a file, such as
[{"text": "write the test", "status": "in_progress"}]. The session has it before its next model call.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			n := toRead
			var list []event.Todo
			if file != "" {
				var err error
				if list, err = a.readTodos(file); err != nil {
					return err
				}
				n = toExecute
			}
			return a.with(cmd.Context(), n, func(l *link) error {
				if file == "" {
					t, err := l.Todos(cmd.Context(), args[0])
					if err != nil {
						return err
					}
					return a.showTodos(t)
				}
				r, err := l.GetRun(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				t, err := l.SetTodos(cmd.Context(), args[0], list)
				if err != nil {
					return err
				}
				if err := a.showTodos(t); err != nil {
					return err
				}
				return a.carryOn(cmd.Context(), l, args[0], r.LastSeq, nil)
			})
		},
	}
	cmd.Flags().StringVar(&file, "set", "", `file with the new list; "-" is standard input`)
	return cmd
}

// maxTodosFile bounds what is read of a list. The engine has bounds of its own.
const maxTodosFile = 1 << 20

func (a *app) readTodos(file string) ([]event.Todo, error) {
	data, err := a.readInput(file, maxTodosFile)
	if err != nil {
		return nil, usageError("--set: %w", err)
	}
	list := []event.Todo{}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, usageError("--set: %s is not a JSON list of {id, text, status}: %w", file, err)
	}
	return list, nil
}

// readInput reads a whole file, or standard input, within a bound.
func (a *app) readInput(file string, limit int64) ([]byte, error) {
	in := a.in
	if file != "-" {
		if !filepath.IsAbs(file) {
			file = filepath.Join(a.dir, file)
		}
		st, err := os.Stat(file)
		if err != nil {
			return nil, err
		}
		if !st.Mode().IsRegular() {
			return nil, fmt.Errorf("%s is no regular file", file)
		}
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", file, limit)
	}
	return data, err
}

func (a *app) showTodos(t api.TodoList) error {
	if a.json {
		return a.print(t)
	}
	if len(t.Todos) == 0 {
		a.infof("no todos")
		return nil
	}
	for _, e := range t.Todos {
		fmt.Fprintf(a.out, "[%s] %s: %s\n", render.Line(e.Status, 20), render.Line(e.ID, 64), render.Line(e.Text, 1000))
	}
	return nil
}
