package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/apiclient"
	"github.com/harness-go/harness/internal/cli/render"
)

func (a *app) approvalsCommand() *cobra.Command {
	cmd := group("approvals", "List, show and answer approvals")
	cmd.AddCommand(a.approvalsList(), a.approvalsShow(), a.decideCommand("approve"), a.decideCommand("deny"))
	return cmd
}

func (a *app) approvalsList() *cobra.Command {
	var all bool
	o := apiclient.ListApprovals{Status: string(event.ApprovalPending)}
	cmd := &cobra.Command{
		Use: "list", Short: "List pending approvals, newest first", Args: cobra.NoArgs, Aliases: []string{"ls"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if all {
				o.Status = ""
			}
			return a.with(cmd.Context(), toRead, func(l *link) error {
				list, err := l.Approvals(cmd.Context(), o)
				if err != nil {
					return err
				}
				if a.json {
					return a.print(list)
				}
				if len(list.Approvals) == 0 {
					a.infof("no approvals")
					return nil
				}
				a.table("APPROVAL\tSTATUS\tASKED\tRUN\tCALL", func(w io.Writer) {
					for _, ap := range list.Approvals {
						fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", render.Line(ap.ID, 80), render.Line(string(ap.Status), 20),
							render.Ago(ap.RequestedAt, a.now()), render.Line(ap.RunID, 80), render.Call(ap.Tool, ap.Arguments))
					}
				})
				if list.NextCursor != "" {
					a.infof("more with: harness approvals list --cursor %s", list.NextCursor)
				}
				return nil
			})
		},
	}
	fs := cmd.Flags()
	fs.BoolVar(&all, "all", false, "answered ones too")
	fs.StringVar(&o.Status, "status", string(event.ApprovalPending), "only approvals with this status")
	fs.StringVar(&o.RunID, "run", "", "only approvals of this run")
	fs.IntVar(&o.Limit, "limit", 0, "at most so many, 1 to 200 (default 50)")
	fs.StringVar(&o.Cursor, "cursor", "", "page that an earlier list named")
	return cmd
}

func (a *app) approvalsShow() *cobra.Command {
	return &cobra.Command{
		Use: "show APPROVAL", Short: "Show an approval with the whole call", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), toRead, func(l *link) error {
				ap, err := l.Approval(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if a.json {
					return a.print(ap)
				}
				render.Approval(a.out, ap, a.now(), a.style())
				return nil
			})
		},
	}
}

func (a *app) decideCommand(verb string) *cobra.Command {
	var reason string
	var session, follow bool
	cmd := &cobra.Command{
		Use: verb + " APPROVAL|RUN", Args: cobra.ExactArgs(1),
		Short: map[string]string{"approve": "Approve a call", "deny": "Refuse a call"}[verb],
		Long: `Answer an approval by its id, or the only pending one of a run by the run's id.

The run goes on at once where a daemon has it. Where none runs, this command goes on with
the run and shows it, unless --follow=false or --json is given; the run then goes on with
harness runs watch or the next daemon.

` + exitHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			var choice *bool
			if cmd.Flags().Changed("follow") {
				choice = &follow
			}
			d := api.DecisionRequest{Decision: verb, Reason: reason}
			if session {
				d.Scope = string(event.ScopeSession)
			}
			return a.decide(cmd.Context(), args[0], d, choice)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why; the model reads the reason of a refusal")
	cmd.Flags().BoolVar(&follow, "follow", false, "show how the run goes on")
	if verb == "approve" {
		cmd.Flags().BoolVar(&session, "session", false, "approve the same call for the rest of the session")
	}
	return cmd
}

func (a *app) decide(ctx context.Context, id string, d api.DecisionRequest, choice *bool) error {
	n := toExecute
	if (choice == nil && a.json) || (choice != nil && !*choice) {
		n = toRead // the decision is kept; nothing has to execute here
	}
	return a.with(ctx, n, func(l *link) error {
		ap, err := a.find(ctx, l, id)
		if err != nil {
			return err
		}
		run, err := l.GetRun(ctx, ap.RunID)
		if err != nil {
			return err
		}
		if ap, err = l.Decide(ctx, ap.ID, d); err != nil {
			return err
		}
		if a.json {
			if err := a.print(ap); err != nil {
				return err
			}
		} else {
			word := map[string]string{api.DecisionApprove: "approved", api.DecisionDeny: "denied"}[d.Decision]
			a.infof("%s %s: %s", word, render.Line(ap.ID, 80), render.Call(ap.Tool, ap.Arguments))
		}
		return a.carryOn(ctx, l, ap.RunID, run.LastSeq, choice)
	})
}

// find takes an approval's id, or the id of a run with one pending approval.
func (a *app) find(ctx context.Context, l *link, id string) (event.Approval, error) {
	if !strings.HasPrefix(id, "run_") {
		return l.Approval(ctx, id)
	}
	list, err := l.Approvals(ctx, apiclient.ListApprovals{RunID: id, Status: string(event.ApprovalPending)})
	if err != nil {
		return event.Approval{}, err
	}
	switch len(list.Approvals) {
	case 1:
		return list.Approvals[0], nil
	case 0:
		if _, err := l.GetRun(ctx, id); err != nil {
			return event.Approval{}, err
		}
		return event.Approval{}, &exitError{ExitFailed, fmt.Errorf("run %s has no pending approval", id)}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "run %s has several pending approvals; name one of them:", id)
	for _, ap := range list.Approvals {
		fmt.Fprintf(&b, "\n  %s  %s", render.Line(ap.ID, 80), render.Call(ap.Tool, ap.Arguments))
	}
	return event.Approval{}, usageError("%s", b.String())
}
