package cli

import (
	"github.com/spf13/cobra"

	"github.com/harness-go/harness/internal/config"
	"github.com/harness-go/harness/internal/daemon"
)

func (a *app) serveCommand() *cobra.Command {
	var sources func() (config.Sources, error)
	cmd := &cobra.Command{
		Use: "serve", Short: "Serve runs over HTTP, as harnessd does", Args: cobra.NoArgs,
		Long: `Serve runs over HTTP until SIGINT or SIGTERM, exactly as the program harnessd does. Every
flag can also be set in harness.yaml or in the environment.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			src, err := sources()
			if err != nil {
				return err
			}
			return exit(daemon.Run(cmd.Context(), src, a.err))
		},
	}
	// The daemon's own flags stand in front of the persistent ones of the same name.
	sources = config.AddFlags(cmd.Flags())
	return cmd
}
