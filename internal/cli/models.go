package cli

import (
	"bytes"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/apiclient"
	"github.com/harness-go/harness/internal/cli/render"
)

func (a *app) modelsCommand() *cobra.Command {
	var o apiclient.ListModels
	cmd := &cobra.Command{
		Use: "models", Short: "List the models that runs can use, with their prices", Args: cobra.NoArgs,
		Long: `List the models that runs can use. Prices are US dollars per million tokens; where a model has none,
--max-cost cannot be kept and is refused.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), toRead, func(l *link) error {
				list, err := l.Models(cmd.Context(), o)
				if err != nil {
					return err
				}
				if a.json {
					return a.print(list)
				}
				if len(list.Models) == 0 {
					a.infof("no models; harness providers tells which providers are configured")
					return nil
				}
				a.table("MODEL\tPROVIDER\tCONTEXT\tIN\tOUT", func(w io.Writer) {
					for _, m := range list.Models {
						in, out := "-", "-"
						if m.Priced {
							in, out = fmt.Sprintf("$%.2f", m.InputCostPerMTok), fmt.Sprintf("$%.2f", m.OutputCostPerMTok)
						}
						name := render.Line(m.ID, 80)
						if m.Default {
							name += " (default)"
						}
						fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", name, render.Line(m.Provider, 60), known(m.ContextWindow), in, out)
					}
				})
				if list.NextCursor != "" {
					a.infof("more with: harness models --cursor %s", list.NextCursor)
				}
				return nil
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.Provider, "provider", "", "only models of this provider")
	fs.IntVar(&o.Limit, "limit", 0, "at most so many, 1 to 1000 (default 200)")
	fs.StringVar(&o.Cursor, "cursor", "", "page that an earlier list named")
	return cmd
}

func known(n int64) string {
	if n <= 0 {
		return "-"
	}
	return render.Number(n)
}

func (a *app) providersCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "providers", Short: "List the providers of models", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), toRead, func(l *link) error {
				list, err := l.Providers(cmd.Context())
				if err != nil {
					return err
				}
				if a.json {
					return a.print(api.ProviderList{Providers: list})
				}
				if len(list) == 0 {
					a.infof("no providers: set a key such as ANTHROPIC_API_KEY, or list them in harness.yaml")
					return nil
				}
				a.table("PROVIDER\tTYPE\tCONFIGURED\tKEY\tMODELS\tADDRESS", func(w io.Writer) {
					for _, p := range list {
						name := render.Line(p.Name, 60)
						if p.Default {
							name += " (default)"
						}
						configured := "no"
						if p.Configured {
							configured = "yes"
						}
						key := p.KeyFrom
						if key == "" {
							key = "-"
						}
						fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\n", name, render.Line(p.Type, 30), configured, render.Line(key, 20), p.ModelCount, render.Line(p.BaseURL, 100))
					}
				})
				return nil
			})
		},
	}
	cmd.AddCommand(a.providersSetKey(), a.providersRemoveKey())
	return cmd
}

// maxKey bounds a key that is read from standard input.
const maxKey = 16 << 10

func (a *app) providersSetKey() *cobra.Command {
	return &cobra.Command{
		Use: "set-key PROVIDER", Short: "Give a running daemon another key of a provider, from standard input", Args: cobra.ExactArgs(1),
		Long: `Give a running daemon another key of a provider. The key is one line of standard input: on the command line
other users could see it. The daemon keeps it in memory and forgets it when it ends.`,
		Example: `  pass show openai | harness providers set-key openai`,
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := a.readInput("-", maxKey)
			if err != nil {
				return usageError("key from standard input: %w", err)
			}
			key := string(bytes.TrimSpace(data))
			if key == "" {
				return usageError("standard input holds no key")
			}
			return a.withDaemon(cmd, func(l *link) error {
				if err := l.SetProviderKey(cmd.Context(), args[0], key); err != nil {
					return err
				}
				return a.keyDone(args[0], "set")
			})
		},
	}
}

func (a *app) providersRemoveKey() *cobra.Command {
	return &cobra.Command{
		Use: "remove-key PROVIDER", Short: "Take away a key that set-key gave", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withDaemon(cmd, func(l *link) error {
				if err := l.RemoveProviderKey(cmd.Context(), args[0]); err != nil {
					return err
				}
				return a.keyDone(args[0], "removed")
			})
		},
	}
}

// withDaemon refuses what would end with this process.
func (a *app) withDaemon(cmd *cobra.Command, f func(l *link) error) error {
	return a.with(cmd.Context(), toRead, func(l *link) error {
		if l.node != nil {
			return usageError("no daemon runs that could keep the key: start one with harness serve, or set the provider's variable")
		}
		return f(l)
	})
}

func (a *app) keyDone(provider, status string) error {
	if a.json {
		return a.print(map[string]string{"provider": provider, "key": status})
	}
	a.infof("key of %s: %s", render.Line(provider, 60), status)
	return nil
}
