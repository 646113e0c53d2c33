package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/apikey"
	"github.com/harness-go/harness/internal/cli/render"
	"github.com/harness-go/harness/internal/engine"
)

func (a *app) keysCommand() *cobra.Command {
	cmd := group("keys", "Make, list, rotate and revoke API keys")
	cmd.AddCommand(a.keysCreate(), a.keysList(), a.keysRotate(), a.keysRevoke())
	return cmd
}

// standardScopes are what a client needs that starts runs and answers their approvals.
var standardScopes = []string{engine.ScopeRunsRead, engine.ScopeRunsWrite, engine.ScopeRunsUnrestricted, engine.ScopeApprovals}

func (a *app) keysCreate() *cobra.Command {
	var r api.KeyRequest
	var expires time.Duration
	cmd := &cobra.Command{
		Use: "create --name NAME", Short: "Make an API key and print it, this once", Args: cobra.NoArgs,
		Long: `Make an API key and print it to standard output, this once: only its digest is kept.

On the daemon's machine no key is needed to make one, whether or not the daemon runs.
Separate who asks from who approves: give programs that start runs no ` + engine.ScopeApprovals + `.`,
		Example: `  harness keys create --name laptop
  harness keys create --name ci --scope runs:read --scope runs:write --expires 720h`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if r.Name == "" {
				return usageError("--name is needed: it tells people what the key is for")
			}
			if expires < 0 {
				return usageError("--expires: %s is negative", expires)
			}
			if expires > 0 {
				r.ExpiresIn = expires.String()
			}
			return a.with(cmd.Context(), toRead, func(l *link) error {
				k, err := l.CreateKey(cmd.Context(), r)
				if err != nil {
					return err
				}
				if a.json {
					return a.print(k)
				}
				fmt.Fprintln(a.out, k.Secret)
				a.infof("key %s (%s) of tenant %s: %s", k.ID, render.Line(k.Name, 100), render.Line(k.TenantID, 100), strings.Join(k.Scopes, ", "))
				a.infof("it is not shown again; give it to clients as HARNESS_API_KEY")
				return nil
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&r.Name, "name", "", "what the key is for")
	fs.StringArrayVar(&r.Scopes, "scope", standardScopes, "what it may do, of "+strings.Join(apikey.Scopes(), ", ")+"; can be repeated")
	fs.StringVar(&r.TenantID, "tenant", "", "tenant that it belongs to")
	fs.DurationVar(&expires, "expires", 0, "end of its use, from now; never without it")
	return cmd
}

func (a *app) keysList() *cobra.Command {
	var tenant string
	cmd := &cobra.Command{
		Use: "list", Short: "List API keys", Args: cobra.NoArgs, Aliases: []string{"ls"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), toRead, func(l *link) error {
				list, err := l.Keys(cmd.Context(), tenant)
				if err != nil {
					return err
				}
				if a.json {
					return a.print(api.KeyList{Keys: list})
				}
				if len(list) == 0 {
					a.infof("no keys; make one with: harness keys create --name NAME")
					return nil
				}
				a.table("KEY\tNAME\tBEGINS\tSTATE\tCREATED\tLAST USED\tEXPIRES\tSCOPES", func(w io.Writer) {
					for _, k := range list {
						fmt.Fprintf(w, "%s\t%s\t%s…\t%s\t%s\t%s\t%s\t%s\n", k.ID, render.Line(k.Name, 40), k.Prefix, a.keyState(k),
							render.Ago(k.CreatedAt, a.now()), a.lastUsed(k), expiry(k), strings.Join(k.Scopes, ","))
					}
				})
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "tenant whose keys to list")
	return cmd
}

func (a *app) keyState(k api.Key) string {
	switch {
	case k.RevokedAt != nil:
		return "revoked"
	case k.ExpiresAt != nil && !a.now().Before(*k.ExpiresAt):
		return "expired"
	}
	return "valid"
}

func (a *app) lastUsed(k api.Key) string {
	if k.LastUsed == nil {
		return "never"
	}
	return render.Ago(*k.LastUsed, a.now())
}

func expiry(k api.Key) string {
	if k.ExpiresAt == nil {
		return "never"
	}
	return k.ExpiresAt.Local().Format("2006-01-02 15:04")
}

func (a *app) keysRotate() *cobra.Command {
	var tenant string
	var overlap, expires time.Duration
	cmd := &cobra.Command{
		Use: "rotate KEY", Short: "Replace an API key by a new one that may do the same", Args: cobra.ExactArgs(1),
		Long: `Make a key with the same name and scopes and print it to standard output, this once. The old
one goes on to work for the overlap, so that its users can change over.`,
		Example: `  harness keys rotate key_4xq7 --overlap 1h`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if overlap < 0 || expires < 0 {
				return usageError("--overlap and --expires must not be negative")
			}
			r := api.KeyRotation{Overlap: overlap.String()}
			if expires > 0 {
				r.ExpiresIn = expires.String()
			}
			return a.with(cmd.Context(), toRead, func(l *link) error {
				k, err := l.RotateKey(cmd.Context(), tenant, args[0], r)
				if err != nil {
					return err
				}
				if a.json {
					return a.print(k)
				}
				fmt.Fprintln(a.out, k.Secret)
				a.infof("key %s (%s) replaces %s, which works until %s", k.ID, render.Line(k.Name, 100), render.Line(k.Replaces, 80),
					k.OldExpiresAt.Local().Format("2006-01-02 15:04:05"))
				a.infof("it is not shown again; give it to clients as HARNESS_API_KEY")
				return nil
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&tenant, "tenant", "", "tenant that it belongs to")
	fs.DurationVar(&overlap, "overlap", 24*time.Hour, "how long the old key goes on to work; 0s ends it at once")
	fs.DurationVar(&expires, "expires", 0, "end of the new key's use, from now; never without it")
	return cmd
}

func (a *app) keysRevoke() *cobra.Command {
	var tenant string
	cmd := &cobra.Command{
		Use: "revoke KEY", Short: "End an API key", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), toRead, func(l *link) error {
				if err := l.RevokeKey(cmd.Context(), tenant, args[0]); err != nil {
					return err
				}
				if a.json {
					return a.print(api.KeyRevoked{ID: args[0], Status: "revoked"})
				}
				a.infof("%s is revoked", render.Line(args[0], 80))
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "tenant that it belongs to")
	return cmd
}
