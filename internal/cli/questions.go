package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/cli/render"
)

func (a *app) questionsCommand() *cobra.Command {
	cmd := group("questions", "Show and answer what a run asks", "input")
	cmd.AddCommand(a.questionsShow(), a.questionsAnswer())
	return cmd
}

func (a *app) questionsShow() *cobra.Command {
	return &cobra.Command{
		Use: "show RUN", Short: "Show what a run asks", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), toRead, func(l *link) error {
				q, err := l.PendingQuestion(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if a.json {
					return a.print(q)
				}
				for _, one := range q.Questions {
					render.Question(a.out, one, a.style())
				}
				a.infof("answer with: harness questions answer %s ANSWER…  (until %s)", args[0], q.DeadlineAt.UTC().Format("2006-01-02 15:04Z"))
				return nil
			})
		},
	}
}

func (a *app) questionsAnswer() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use: "answer RUN ANSWER…", Short: "Answer what a run asks", Args: cobra.MinimumNArgs(2),
		Long: `Answer what a run asks: one argument for each question, in their order. An argument is the
number of an option, or your own words; where several options may be chosen, separate them
by commas.

` + exitHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			var choice *bool
			if cmd.Flags().Changed("follow") {
				choice = &follow
			}
			return a.answer(cmd.Context(), args[0], args[1:], choice)
		},
	}
	cmd.Flags().BoolVar(&follow, "follow", false, "show how the run goes on")
	return cmd
}

func (a *app) answer(ctx context.Context, runID string, texts []string, choice *bool) error {
	n := toExecute
	if (choice == nil && a.json) || (choice != nil && !*choice) {
		n = toRead
	}
	return a.with(ctx, n, func(l *link) error {
		run, err := l.GetRun(ctx, runID)
		if err != nil {
			return err
		}
		q, err := l.PendingQuestion(ctx, runID)
		if err != nil {
			return err
		}
		answers, err := match(q.Questions, texts)
		if err != nil {
			return err
		}
		if err := l.Answer(ctx, runID, answers); err != nil {
			return err
		}
		if a.json {
			if err := a.print(map[string]any{"run_id": runID, "status": "accepted", "answers": answers}); err != nil {
				return err
			}
		} else {
			a.infof("answered")
		}
		return a.carryOn(ctx, l, runID, run.LastSeq, choice)
	})
}

func match(questions []event.Question, texts []string) (map[string][]string, error) {
	if len(texts) != len(questions) {
		return nil, usageError("the run asks %d questions, and there are %d answers", len(questions), len(texts))
	}
	out := map[string][]string{}
	for i, q := range questions {
		answer, err := choose(q, texts[i])
		if err != nil {
			return nil, &exitError{ExitUsage, fmt.Errorf("%s: %w", render.Line(q.Header, 80), err)}
		}
		out[q.Question] = answer
	}
	return out, nil
}
