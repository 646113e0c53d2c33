package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/apiclient"
	"github.com/harness-go/harness/internal/cli/render"
	"github.com/harness-go/harness/internal/engine"
)

func (a *app) runsCommand() *cobra.Command {
	cmd := group("runs", "List, show, follow, steer and export runs")
	cmd.AddCommand(a.runsList(), a.runsShow(), a.runsWatch(), a.runsCancel(), a.runsSteer(), a.runsContinue(),
		a.runsSummary(), a.runsContext(), a.runsCompact(), a.runsTodos(), a.runsExport())
	return cmd
}

// with runs a command on a connection.
func (a *app) with(ctx context.Context, n need, f func(l *link) error) error {
	l, err := a.connect(ctx, n, nil)
	if err != nil {
		return err
	}
	defer l.close()
	return f(l)
}

// table writes aligned columns.
func (a *app) table(header string, rows func(w io.Writer)) {
	w := tabwriter.NewWriter(a.out, 2, 8, 2, ' ', 0)
	fmt.Fprintln(w, header)
	rows(w)
	_ = w.Flush()
}

func (a *app) runsList() *cobra.Command {
	var o apiclient.ListRuns
	cmd := &cobra.Command{
		Use: "list", Short: "List runs, newest first", Args: cobra.NoArgs, Aliases: []string{"ls"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), toRead, func(l *link) error {
				list, err := l.ListRuns(cmd.Context(), o)
				if err != nil {
					return err
				}
				if a.json {
					return a.print(list)
				}
				if len(list.Runs) == 0 {
					a.infof("no runs")
					return nil
				}
				a.table("RUN\tSTATUS\tSTEPS\tCOST\tCREATED\tPROMPT", func(w io.Writer) {
					for _, r := range list.Runs {
						cost := fmt.Sprintf("$%.4f", r.CostTotals.CostUSDTotal)
						if r.CostTotals.CostStatus != event.CostAvailable {
							cost = "-"
						}
						fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\n", render.Line(r.ID, 80), render.Line(r.Status, 30), r.Steps, cost,
							render.Ago(r.CreatedAt, a.now()), render.Line(r.Prompt, 60))
					}
				})
				if list.NextCursor != "" {
					a.infof("more with: harness runs list --cursor %s", list.NextCursor)
				}
				return nil
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.Status, "status", "", "only runs with this status")
	fs.StringVar(&o.ConversationID, "conversation", "", "only runs of this conversation")
	fs.IntVar(&o.Limit, "limit", 0, "at most so many, 1 to 200 (default 50)")
	fs.StringVar(&o.Cursor, "cursor", "", "page that an earlier list named")
	return cmd
}

func (a *app) runsShow() *cobra.Command {
	return &cobra.Command{
		Use: "show RUN", Short: "Show one run", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), toRead, func(l *link) error {
				r, err := l.GetRun(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if a.json {
					return a.print(r)
				}
				a.showRun(r)
				return nil
			})
		},
	}
}

func (a *app) showRun(r api.Run) {
	w := tabwriter.NewWriter(a.out, 2, 8, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, value)
		}
	}
	row("run", render.Line(r.ID, 100))
	row("status", render.Line(r.Status, 40))
	row("reason", render.Line(r.Reason, 100))
	row("error", render.Line(r.Error, 1000))
	row("conversation", render.Line(r.ConversationID, 100))
	row("continues", render.Line(r.PreviousRunID, 100))
	row("workspace", render.Line(r.Workspace, 400))
	row("model", render.Line(strings.Trim(r.ProviderName+"/"+r.Model, "/"), 200))
	row("permissions", fmt.Sprintf("sandbox %s, network %s, approval %s",
		render.Line(r.Permissions.Sandbox, 40), render.Line(r.Permissions.Network, 40), render.Line(r.Permissions.Approval, 40)))
	row("created", r.CreatedAt.UTC().Format("2006-01-02 15:04:05Z")+by(r.CreatedBy))
	if r.FinishedAt != nil {
		row("finished", r.FinishedAt.UTC().Format("2006-01-02 15:04:05Z"))
	}
	row("steps", fmt.Sprint(r.Steps))
	row("usage", render.Usage(r.UsageTotals, r.CostTotals))
	row("waits for", render.Line(strings.Join(r.PendingApprovals, ", "), 1000))
	row("prompt", render.Line(r.Prompt, 400))
	for _, f := range r.Attachments {
		row("attached", fmt.Sprintf("%s %s, %d bytes", render.Line(f.MediaType, 80), render.Line(f.Filename, 255), f.Size))
	}
	_ = w.Flush()
	if r.Output != "" {
		fmt.Fprintf(a.out, "\n%s\n", strings.TrimSuffix(render.Text(r.Output), "\n"))
	}
}

func by(who string) string {
	if who == "" {
		return ""
	}
	return " by " + render.Line(who, 80)
}

func (a *app) runsWatch() *cobra.Command {
	var after int64
	var quiet bool
	cmd := &cobra.Command{
		Use: "watch RUN", Short: "Follow a run from its first event to its end",
		Long: `Follow a run from its first event to its end. What waits for a person can be answered here.
Where no daemon runs, the run goes on in this command. Ctrl-C stops watching and changes nothing.

` + exitHelp,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), toExecute, func(l *link) error {
				f := &follow{app: a, link: l, runID: args[0], after: after, quiet: quiet}
				defer func() { f.link.close() }()
				return f.run(cmd.Context())
			})
		},
	}
	cmd.Flags().Int64Var(&after, "after", 0, "begin after this event")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "show only the answer and the end")
	return cmd
}

func (a *app) runsCancel() *cobra.Command {
	return &cobra.Command{
		Use: "cancel RUN", Short: "End a run and wait until it has ended", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), toExecute, func(l *link) error {
				r, err := l.GetRun(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if _, err := l.Cancel(cmd.Context(), args[0]); err != nil {
					return err
				}
				if r, err = a.untilEnd(cmd.Context(), l, r); err != nil {
					return err
				}
				if a.json {
					return a.print(r)
				}
				a.infof("run %s is %s", render.Line(r.ID, 100), render.Line(r.Status, 40))
				return nil
			})
		},
	}
}

// untilEnd waits for the end of a run without showing its events.
func (a *app) untilEnd(ctx context.Context, l *link, r api.Run) (api.Run, error) {
	for _, err := range l.Events(ctx, r.ID, r.LastSeq) {
		if err != nil {
			return r, err
		}
	}
	return l.GetRun(ctx, r.ID)
}

func (a *app) runsSteer() *cobra.Command {
	return &cobra.Command{
		Use: "steer RUN MESSAGE", Short: "Send a message to an active run", Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), toExecute, func(l *link) error {
				r, err := l.GetRun(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if err := l.Steer(cmd.Context(), args[0], strings.Join(args[1:], " ")); err != nil {
					return err
				}
				if a.json {
					if err := a.print(map[string]string{"run_id": args[0], "status": "accepted"}); err != nil {
						return err
					}
				} else {
					a.infof("the run reads it before its next step")
				}
				return a.carryOn(cmd.Context(), l, args[0], r.LastSeq, nil)
			})
		},
	}
}

func (a *app) runsContinue() *cobra.Command {
	var approveAll, quiet bool
	var attach []string
	var compact bool
	cmd := &cobra.Command{
		Use: "continue RUN PROMPT", Short: "Go on with an ended run's conversation", Args: cobra.MinimumNArgs(2),
		Long: "Go on with an ended run's conversation, with its settings, and show what happens.\n\n" + exitHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := a.attachments(attach)
			if err != nil {
				return err
			}
			return a.with(cmd.Context(), toExecute, func(l *link) error {
				req := engine.ContinueRequest{Prompt: strings.Join(args[1:], " "), Attachments: files}
				if compact {
					req.Compact = &api.CompactRequest{}
				}
				acc, err := l.Continue(cmd.Context(), args[0], req, "")
				if err != nil {
					return err
				}
				f := &follow{app: a, link: l, runID: acc.RunID, owner: true, approveAll: approveAll, quiet: quiet}
				defer func() { f.link.close() }()
				return f.run(cmd.Context())
			})
		},
	}
	cmd.Flags().StringArrayVar(&attach, "attach", nil, "image, PDF or text that the model sees with the prompt; can be repeated")
	cmd.Flags().BoolVar(&compact, "compact", false, "make the conversation's history shorter first")
	cmd.Flags().BoolVar(&approveAll, "approve-all", false, "approve every call without asking; each approval is recorded as such")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "show only the answer and the end")
	return cmd
}

// carryOn follows a run that was woken by a command, where no daemon goes on with it. choice, when not nil, overrides
// that.
func (a *app) carryOn(ctx context.Context, l *link, runID string, after int64, choice *bool) error {
	follows := l.node != nil && !a.json
	if choice != nil {
		follows = *choice
	}
	if !follows {
		return nil
	}
	f := &follow{app: a, link: l, runID: runID, after: after}
	defer func() { f.link.close() }()
	return f.run(ctx)
}
