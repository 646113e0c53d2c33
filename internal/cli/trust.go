package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/harness-go/harness/internal/cli/render"
	"github.com/harness-go/harness/internal/config"
)

func (a *app) trustCommand() *cobra.Command {
	var digest string
	cmd := &cobra.Command{
		Use: "trust [FOLDER]", Short: "Trust the settings that a workspace brings", Args: cobra.MaximumNArgs(1),
		Long: `Show the settings file of a workspace, .harness/harness.yaml, and record that you trust its
content. Any change of the file voids that. At a terminal you are asked; a program names
the content with --digest.`,
		RunE: func(_ *cobra.Command, args []string) error {
			dir := a.dir
			if len(args) > 0 {
				if dir = args[0]; !filepath.IsAbs(dir) {
					dir = filepath.Join(a.dir, dir)
				}
			}
			f, err := config.FindWorkspaceFile(dir)
			if err != nil {
				return err
			}
			if f == nil {
				return usageError("%s has no .harness/harness.yaml", dir)
			}
			ok, err := f.Trusted(a.userDir)
			if err != nil {
				return err
			}
			if ok {
				return a.trusted(f, "already trusted")
			}
			if err := f.Check(); err != nil {
				return err
			}
			switch {
			case digest == f.Digest:
			case digest != "":
				return usageError("the content of %s has the digest %s, not %s", f.Path, f.Digest, render.Line(digest, 80))
			case a.inTerminal && !a.json:
				if !a.confirm(f) {
					return exit(ExitCancelled)
				}
			default:
				a.infof("%s\n\n%s", f.Path, strings.TrimSuffix(render.Text(string(f.Content)), "\n"))
				return usageError("%w; when you trust this content, run: harness trust --digest %s %s", errNoTerminal, f.Digest, dir)
			}
			if err := f.Trust(a.userDir); err != nil {
				return err
			}
			return a.trusted(f, "trusted")
		},
	}
	cmd.Flags().StringVar(&digest, "digest", "", "digest of the content that you trust")
	return cmd
}

func (a *app) trusted(f *config.WorkspaceFile, word string) error {
	if a.json {
		return a.print(map[string]any{"path": f.Path, "digest": f.Digest, "trusted": true})
	}
	a.infof("%s: %s (%s)", word, f.Path, f.Digest)
	return nil
}

func (a *app) confirm(f *config.WorkspaceFile) bool {
	a.infof("%s\n\n%s\n", f.Path, strings.TrimSuffix(render.Text(string(f.Content)), "\n"))
	fmt.Fprint(a.err, "Trust this content? [y]es or [n]o > ")
	line, ok := <-a.input().fresh()
	line = strings.ToLower(strings.TrimSpace(line))
	return ok && (line == "y" || line == "yes")
}
