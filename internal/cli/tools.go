package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/harness-go/harness/internal/cli/render"
)

func (a *app) toolsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "tools", Short: "List the tools that runs can use", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), toRead, func(l *link) error {
				list, err := l.Tools(cmd.Context())
				if err != nil {
					return err
				}
				if a.json {
					return a.print(map[string]any{"tools": list})
				}
				a.table("TOOL\tTIER\tKIND\tDESCRIPTION", func(w io.Writer) {
					for _, t := range list {
						first, _, _ := strings.Cut(t.Description, "\n")
						fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", render.Line(t.Name, 64), t.Tier, t.Kind, render.Line(first, 80))
					}
				})
				return nil
			})
		},
	}
}
