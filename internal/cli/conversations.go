package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/apiclient"
	"github.com/harness-go/harness/internal/cli/render"
	"github.com/harness-go/harness/internal/engine"
)

func (a *app) conversationsCommand() *cobra.Command {
	cmd := group("conversations", "List, read, search, export, fork and delete conversations", "conversation", "conv")
	cmd.AddCommand(a.conversationsList(), a.conversationsShow(), a.conversationsMessages(), a.conversationsSearch(),
		a.conversationsExport(), a.conversationsFork(), a.conversationsDelete(), a.conversationsCleanUp())
	return cmd
}

func (a *app) conversationsList() *cobra.Command {
	var o apiclient.ListConversations
	cmd := &cobra.Command{
		Use: "list", Short: "List conversations, the one with the newest run first", Args: cobra.NoArgs, Aliases: []string{"ls"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), toRead, func(l *link) error {
				list, err := l.Conversations(cmd.Context(), o)
				if err != nil {
					return err
				}
				if a.json {
					return a.print(list)
				}
				if len(list.Conversations) == 0 {
					a.infof("no conversations")
					return nil
				}
				a.table("CONVERSATION\tRUNS\tLAST\tUPDATED\tTITLE", func(w io.Writer) {
					for _, c := range list.Conversations {
						last := c.LastStatus
						if last == "" {
							last = "fork"
						}
						fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", render.Line(c.ID, 130), c.RunCount, render.Line(last, 30),
							render.Ago(c.UpdatedAt, a.now()), render.Line(c.Title, 60))
					}
				})
				if list.NextCursor != "" {
					a.infof("more with: harness conversations list --cursor %s", list.NextCursor)
				}
				return nil
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.AgentID, "agent-id", "", "only those whose last run has this agent id")
	fs.IntVar(&o.Limit, "limit", 0, "at most so many, 1 to 200 (default 50)")
	fs.StringVar(&o.Cursor, "cursor", "", "page that an earlier list named")
	return cmd
}

func (a *app) conversationsShow() *cobra.Command {
	return &cobra.Command{
		Use: "show CONVERSATION", Short: "Show what a conversation's runs add up to", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), toRead, func(l *link) error {
				c, err := l.Conversation(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if a.json {
					return a.print(c)
				}
				a.showConversation(c)
				return nil
			})
		},
	}
}

func (a *app) showConversation(c api.Conversation) {
	w := tabwriter.NewWriter(a.out, 2, 8, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, value)
		}
	}
	const stamp = "2006-01-02 15:04:05Z"
	row("conversation", render.Line(c.ID, 130))
	row("title", render.Line(c.Title, 400))
	row("agent", render.Line(c.AgentID, 130))
	row("forked from", render.Line(strings.TrimSpace(c.ForkedFrom+" "+c.ForkedRun), 300))
	row("created", c.CreatedAt.UTC().Format(stamp))
	row("updated", c.UpdatedAt.UTC().Format(stamp))
	row("runs", fmt.Sprint(c.RunCount))
	if c.MessageCount != nil {
		row("messages", fmt.Sprint(*c.MessageCount))
	}
	row("last run", render.Line(strings.TrimSpace(c.LastRunID+" "+c.LastStatus), 200))
	if c.RunCount > 0 {
		row("usage", render.Usage(c.UsageTotals, c.CostTotals))
	}
	_ = w.Flush()
}

func (a *app) conversationsMessages() *cobra.Command {
	var cursor string
	var limit int
	cmd := &cobra.Command{
		Use: "messages CONVERSATION", Short: "Read a conversation, oldest message first", Args: cobra.ExactArgs(1),
		Long: "Read a conversation, oldest message first. With --json it is one page.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), toRead, func(l *link) error {
				for {
					page, err := l.Messages(cmd.Context(), args[0], cursor, limit)
					if err != nil {
						return err
					}
					if a.json {
						return a.print(page)
					}
					for _, m := range page.Messages {
						a.showMessage(m)
					}
					if cursor = page.NextCursor; cursor == "" {
						return nil
					}
					if limit > 0 {
						a.infof("more with: harness conversations messages %s --cursor %s", render.Line(args[0], 130), cursor)
						return nil
					}
				}
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 0, "at most so many, 1 to 200 (default all)")
	cmd.Flags().StringVar(&cursor, "cursor", "", "page that an earlier one named")
	return cmd
}

func (a *app) showMessage(m engine.Message) {
	s := a.style()
	head := m.Role
	if m.Steering {
		head += " (while it worked)"
	}
	fmt.Fprintln(a.out, s.Bold(head)+s.Dim(fmt.Sprintf(" #%d %s", m.ID, m.Time.UTC().Format("2006-01-02T15:04:05Z"))))
	if m.Reasoning != "" {
		fmt.Fprintln(a.out, s.Dim(indent(render.Text(m.Reasoning))))
	}
	if m.Text != "" {
		fmt.Fprintln(a.out, indent(render.Text(m.Text)))
	}
	for _, f := range m.Files {
		fmt.Fprintf(a.out, "  [%s %s, %d bytes]\n", render.Line(f.MediaType, 80), render.Line(f.Name, 100), f.Size)
	}
	for _, c := range m.ToolCalls {
		end := ""
		switch {
		case c.Result == nil:
			end = s.Yellow(" (no result)")
		case c.Result.Error != "":
			end = s.Red(" (failed)")
		}
		fmt.Fprintf(a.out, "  ● %s%s\n", render.Call(c.Tool, c.Arguments), end)
	}
	fmt.Fprintln(a.out)
}

func indent(s string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n  ")
}

func (a *app) conversationsSearch() *cobra.Command {
	var o apiclient.SearchConversations
	cmd := &cobra.Command{
		Use: "search WORDS", Short: "Find what was said, best first", Args: cobra.MinimumNArgs(1),
		Long: `Find what was said, best first. All words must occur; '"some words"' in a row, begin* for a
beginning, -word for one that must not occur (after -- on the command line).`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Query = strings.Join(args, " ")
			return a.with(cmd.Context(), toRead, func(l *link) error {
				found, err := l.SearchConversations(cmd.Context(), o)
				if err != nil {
					return err
				}
				if a.json {
					return a.print(found)
				}
				if len(found.Hits) == 0 {
					a.infof("nothing found")
					return nil
				}
				s := a.style()
				for _, h := range found.Hits {
					text := ""
					for _, p := range h.Snippet {
						piece := snippetText(p.Text)
						if p.Match {
							piece = s.Bold(piece)
						}
						text += piece
					}
					fmt.Fprintf(a.out, "%s %s\n  %s: %s\n", render.Line(h.ConversationID, 130),
						s.Dim(fmt.Sprintf("#%d %s", h.MessageID, render.Ago(h.Time, a.now()))), render.Line(h.Role, 20), text)
				}
				if found.NextCursor != "" {
					a.infof("more with: --cursor %s", found.NextCursor)
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&o.Tools, "tools", false, "search tool calls too")
	cmd.Flags().IntVar(&o.Limit, "limit", 0, "at most so many, 1 to 100 (default 20)")
	cmd.Flags().StringVar(&o.Cursor, "cursor", "", "page that an earlier search named")
	return cmd
}

// snippetText makes a piece of a snippet safe, and keeps the blanks at its ends.
func snippetText(s string) string {
	line := render.Line(s, 1000)
	if strings.TrimLeft(s, " \n\t") != s && line != "" {
		line = " " + line
	}
	if strings.TrimRight(s, " \n\t") != s {
		line += " "
	}
	return line
}

func (a *app) conversationsExport() *cobra.Command {
	var file string
	var events, force bool
	cmd := &cobra.Command{
		Use: "export CONVERSATION", Short: "Write a conversation as lines of JSON", Args: cobra.ExactArgs(1),
		Long: `Write a conversation as lines of JSON, to standard output or a file. The first line tells the format,
the last one that the export is whole.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			include := ""
			if events {
				include = "events"
			}
			return a.with(cmd.Context(), toRead, func(l *link) error {
				if file == "" {
					return l.ExportConversation(cmd.Context(), args[0], include, a.out)
				}
				return a.whole(file, force, func(w io.Writer) error { return l.ExportConversation(cmd.Context(), args[0], include, w) })
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&file, "output", "o", "", "write to this file")
	fs.BoolVar(&force, "force", false, "replace the file if it exists")
	fs.BoolVar(&events, "events", false, "every event of every run in the place of messages")
	return cmd
}

func (a *app) conversationsFork() *cobra.Command {
	var req engine.ForkRequest
	cmd := &cobra.Command{
		Use: "fork CONVERSATION", Short: "Make a conversation that begins as a copy of this one", Args: cobra.ExactArgs(1),
		Long: `Make a conversation that begins as a copy of this one, up to the end of its last run that has ended, or of
the run that --run or --message names. harness run --conversation goes on from there.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), toRead, func(l *link) error {
				f, err := l.ForkConversation(cmd.Context(), args[0], req)
				if err != nil {
					return err
				}
				if a.json {
					return a.print(f)
				}
				fmt.Fprintln(a.out, render.Line(f.ConversationID, 130))
				a.infof("%d messages; go on with: harness run --conversation %s PROMPT", f.MessageCount, render.Line(f.ConversationID, 130))
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&req.RunID, "run", "", "the copy ends with this run")
	cmd.Flags().Int64Var(&req.Message, "message", 0, "the copy ends with the run that this message belongs to")
	return cmd
}

func (a *app) conversationsDelete() *cobra.Command {
	return &cobra.Command{
		Use: "delete CONVERSATION…", Short: "Delete conversations with everything that belongs to them", Args: cobra.MinimumNArgs(1), Aliases: []string{"rm"},
		Long: `Delete conversations with everything that belongs to them: runs, events, messages, approvals, notes and
artifacts. It cannot be taken back. A conversation with open runs is not deleted: cancel them first.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), toRead, func(l *link) error {
				for _, id := range args {
					if err := l.DeleteConversation(cmd.Context(), id); err != nil {
						return openRuns(err)
					}
					if !a.json {
						a.infof("deleted %s", render.Line(id, 130))
					}
				}
				if a.json {
					return a.print(map[string][]string{"deleted": args})
				}
				return nil
			})
		},
	}
}

// openRuns adds the way out to the refusal of a deletion.
func openRuns(err error) error {
	p, ok := errors.AsType[*api.Problem](err)
	if !ok || p.Code != api.CodeConversationActive {
		return err
	}
	q := *p
	if d, ok := p.Details.(map[string]any); ok {
		if list, ok := d["runs"].([]any); ok {
			for _, id := range list {
				q.Detail += "\n  harness runs cancel " + render.Line(fmt.Sprint(id), 100)
			}
		}
	}
	return &q
}

func (a *app) conversationsCleanUp() *cobra.Command {
	var days int
	cmd := &cobra.Command{
		Use: "cleanup", Short: "Delete the conversations that did not change for some days", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if days < 1 {
				return usageError("--max-age-days is required: conversations that did not change for so many days are deleted")
			}
			return a.with(cmd.Context(), toRead, func(l *link) error {
				var total api.CleanedUp
				for more := true; more; {
					done, err := l.CleanUpConversations(cmd.Context(), days)
					if err != nil {
						return err
					}
					total.Deleted += done.Deleted
					more = done.More && done.Deleted > 0
				}
				if a.json {
					return a.print(total)
				}
				a.infof("deleted %d conversations", total.Deleted)
				return nil
			})
		},
	}
	cmd.Flags().IntVar(&days, "max-age-days", 0, "delete what did not change for so many days")
	return cmd
}
