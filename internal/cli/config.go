package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/harness-go/harness/internal/cli/render"
	"github.com/harness-go/harness/internal/config"
)

func (a *app) configCommand() *cobra.Command {
	cmd := group("config", "Explain and check the configuration")
	cmd.AddCommand(a.configExplain(), a.configValidate(), a.configPath())
	return cmd
}

// withFlags gives a command the daemon's flags, so that it sees what a daemon with the same flags would.
func (a *app) withFlags(cmd *cobra.Command) func() (config.Sources, error) {
	sources := config.AddFlags(cmd.Flags())
	return func() (config.Sources, error) {
		src, err := sources()
		if err != nil {
			return config.Sources{}, err
		}
		src.Env, src.Dir, src.UserDir = a.env, a.dir, a.userDir
		return src, nil
	}
}

func (a *app) configExplain() *cobra.Command {
	cmd := &cobra.Command{
		Use: "explain [KEY]", Short: "Show settings with their values and where these come from", Args: cobra.MaximumNArgs(1),
		Long: `Show every setting, or one setting or group, with its value, the source of the value and the
values that lost. It takes the daemon's flags, and shows secrets as set or not set.`,
		Example: `  harness config explain
  harness config explain max_steps
  harness config explain providers --json`,
	}
	sources := a.withFlags(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		src, err := sources()
		if err != nil {
			return err
		}
		c, list, err := config.Explain(src)
		if err != nil {
			return err
		}
		key := ""
		if len(args) > 0 {
			key = args[0]
		}
		shown := make([]config.Explanation, 0, len(list))
		for _, x := range list {
			if x.Match(key) {
				shown = append(shown, x)
			}
		}
		if len(shown) == 0 {
			return usageError("%q is not a setting; harness config explain lists them", key)
		}
		if a.json {
			return a.print(map[string]any{"settings": shown, "notes": append([]string{}, c.Notes...)})
		}
		if key == "" {
			a.showSettings(shown)
		} else {
			for i, x := range shown {
				if i > 0 {
					fmt.Fprintln(a.out)
				}
				a.showSetting(x)
			}
		}
		for _, n := range c.Notes {
			a.infof("note: %s", n)
		}
		return nil
	}
	return cmd
}

const maxShown = 60

func shownValue(v any) string { return render.Line(config.Text(v), maxShown) }

func (a *app) showSettings(list []config.Explanation) {
	a.table("SETTING\tVALUE\tFROM\tABOUT", func(w io.Writer) {
		for _, x := range list {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", render.Line(x.Key, maxShown), shownValue(x.Value), render.Line(x.Source, 200), x.Help)
			for _, l := range x.Lost {
				if l.Source != "default" {
					fmt.Fprintf(w, "\t%s\t%s\t%s\n", shownValue(l.Value), render.Line(l.Source, 200), lostBecause(l))
				}
			}
		}
	})
}

func lostBecause(l config.Candidate) string {
	if l.Why != "" {
		return "(does not count: " + l.Why + ")"
	}
	return "(lost)"
}

func (a *app) showSetting(x config.Explanation) {
	fmt.Fprintf(a.out, "%s = %s\n", render.Line(x.Key, 200), render.Line(config.Text(x.Value), 1000))
	fmt.Fprintf(a.out, "  %s (%s)\n", x.Help, x.Type)
	if x.Source != "" {
		fmt.Fprintf(a.out, "  from %s\n", render.Line(x.Source, 1000))
	}
	for _, l := range x.Lost {
		fmt.Fprintf(a.out, "  %s from %s %s\n", render.Line(config.Text(l.Value), 1000), render.Line(l.Source, 1000), lostBecause(l))
	}
	var places []string
	for _, p := range []string{x.Env, x.Flag} {
		if p != "" {
			places = append(places, p)
		}
	}
	if len(places) > 0 {
		places = append(places, "harness.yaml")
		if x.Workspace {
			places = append(places, ".harness/harness.yaml of a trusted workspace")
		}
		fmt.Fprintf(a.out, "  can be set by %s\n", strings.Join(places, ", "))
	}
}

func (a *app) configValidate() *cobra.Command {
	cmd := &cobra.Command{
		Use: "validate [FILE]", Short: "Check the configuration, or a file in the place of the user's", Args: cobra.MaximumNArgs(1),
		Long: "Check every source as a start would. It ends with code 2 when a value cannot be used, and names it.",
	}
	sources := a.withFlags(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		src, err := sources()
		if err != nil {
			return err
		}
		if len(args) > 0 {
			src.File = args[0]
		}
		c, err := config.Load(src)
		if err != nil {
			return err
		}
		if a.json {
			return a.print(map[string]any{"valid": true, "notes": append([]string{}, c.Notes...)})
		}
		for _, n := range c.Notes {
			a.infof("note: %s", n)
		}
		a.infof("the configuration can be used: %d settings are not the defaults", len(c.Origins))
		return nil
	}
	return cmd
}

// place is one path of the configuration.
type place struct {
	What  string `json:"what"`
	Path  string `json:"path"`
	State string `json:"state"` // present | absent | not trusted | trusted
}

func (a *app) configPath() *cobra.Command {
	return &cobra.Command{
		Use: "path", Short: "Show the files and folders of the configuration", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			src := config.Sources{Env: a.env, Dir: a.dir, UserDir: a.userDir, File: a.configArg}
			if a.stateDir != "" {
				src.Flags = map[string]string{"state_dir": a.stateDir}
			}
			c, err := config.Load(src)
			list := []place{{"user", config.UserFile(src), present(config.UserFile(src))}}
			if err == nil {
				list = append(list, workspacePlace(c), place{"state", c.StateDir, present(c.StateDir)})
			}
			if a.json {
				if perr := a.print(map[string]any{"paths": list}); perr != nil {
					return perr
				}
				return err
			}
			a.table("WHAT\tPATH\tSTATE", func(w io.Writer) {
				for _, p := range list {
					fmt.Fprintf(w, "%s\t%s\t%s\n", p.What, render.Line(p.Path, 1000), p.State)
				}
			})
			return err
		},
	}
}

func present(path string) string {
	if path == "" {
		return "absent"
	}
	if _, err := os.Stat(path); err != nil {
		return "absent"
	}
	return "present"
}

func workspacePlace(c config.Config) place {
	p := place{"workspace", filepath.Join(c.Workspace, ".harness", "harness.yaml"), "absent"}
	switch {
	case c.Untrusted != nil:
		p.State = "not trusted"
	case present(p.Path) == "present":
		p.State = "trusted"
	}
	return p
}
