package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"charm.land/fang/v2"
	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/harness-go/harness/internal/buildinfo"
	"github.com/harness-go/harness/internal/cli/render"
	"github.com/harness-go/harness/internal/config"
)

// app is one call of the program: where it reads and writes, and what all commands share.
type app struct {
	in       io.Reader
	out, err io.Writer
	// The three streams as terminals.
	inTerminal, outTerminal, errTerminal bool
	color                                bool
	interrupts                           *interrupts
	now                                  func() time.Time
	dir                                  string   // current folder
	env                                  []string // as of os.Environ
	userDir                              string
	build                                buildinfo.Info

	lines *lines // standard input by lines, once somebody asked for it

	// Persistent flags.
	json      bool
	server    string
	keyEnv    string
	stateDir  string
	configArg string
}

// Main is the program harness. It returns the exit code.
func Main(args []string) int {
	dir, err := os.Getwd()
	if err != nil {
		fmt.Fprintln(os.Stderr, "harness: current folder:", err)
		return ExitFailed
	}
	a := &app{
		in: os.Stdin, out: os.Stdout, err: os.Stderr, inTerminal: terminal(os.Stdin), outTerminal: terminal(os.Stdout),
		errTerminal: terminal(os.Stderr), interrupts: &interrupts{ch: make(chan os.Signal)}, now: time.Now, dir: dir, env: os.Environ(), userDir: config.UserDir(),
		build: buildinfo.Read(),
	}
	a.color = a.outTerminal && a.errTerminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt)
	go a.interrupts.distribute(signals, cancel)
	return a.main(ctx, args)
}

func terminal(f *os.File) bool { return isatty.IsTerminal(f.Fd()) }

func (a *app) main(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetOut(a.out)
	root.SetErr(a.err)
	var err error
	if a.outTerminal && wantsHelp(args) {
		// The styled help is for people at a terminal; everything else starts without it.
		quiet := func(io.Writer, fang.Styles, error) {}
		err = fang.Execute(ctx, root, fang.WithoutManpage(), fang.WithoutVersion(), fang.WithErrorHandler(quiet))
	} else {
		err = root.ExecuteContext(ctx)
	}
	if err == nil {
		return ExitOK
	}
	if msg := message(err); msg != "" {
		fmt.Fprintln(a.err, "harness:", msg)
	}
	return codeOf(err)
}

func wantsHelp(args []string) bool {
	if len(args) == 0 {
		return true
	}
	for _, arg := range args {
		switch arg {
		case "-h", "--help", "help":
			return true
		case "--":
			return false
		}
	}
	return false
}

func (a *app) style() render.Style { return render.Style{Color: a.color} }

// getenv reads the program's environment.
func (a *app) getenv(name string) string {
	v := ""
	for _, kv := range a.env {
		if n, value, ok := strings.Cut(kv, "="); ok && n == name {
			v = value
		}
	}
	return v
}

func (a *app) infof(format string, args ...any) { fmt.Fprintf(a.err, format+"\n", args...) }

// print writes a value as one line of JSON.
func (a *app) print(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return nil
}

const long = `harness runs agents as durable runs: every tool call passes one gate, and everything
that happens is an event in one log.

Commands talk to the daemon that --server names, else to the process that has the state
directory, else they do the work themselves on the same store. No daemon is needed.

`

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "harness",
		Short: "Run agents as durable, gated runs",
		Long:  long + exitHelp,
		Example: `  HARNESS_PROVIDER=fake harness run "say hello"
  harness run -C ./repo --approval destructive "make the failing test pass"
  harness approvals list
  harness serve`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       a.build.String(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError("unknown command %q; harness --help lists them", args[0])
			}
			return cmd.Help()
		},
		Args: cobra.ArbitraryArgs,
	}
	root.SetVersionTemplate("harness {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError("%w\nSee %s --help", err, cmd.CommandPath())
	})
	f := root.PersistentFlags()
	f.BoolVar(&a.json, "json", false, "write JSON to standard output")
	f.StringVar(&a.server, "server", "", "address of a daemon, such as http://127.0.0.1:8080 (HARNESS_SERVER)")
	f.StringVar(&a.keyEnv, "api-key-env", "HARNESS_API_KEY", "variable with the API key for --server")
	f.StringVar(&a.stateDir, "state-dir", "", "folder of the store (HARNESS_STATE_DIR)")
	f.StringVar(&a.configArg, "config", "", "file of settings in the place of the user's harness.yaml (HARNESS_CONFIG)")
	root.AddCommand(
		a.runCommand(), a.runsCommand(), a.conversationsCommand(), a.approvalsCommand(), a.questionsCommand(), a.toolsCommand(),
		a.modelsCommand(), a.providersCommand(),
		a.serveCommand(), a.configCommand(), a.keysCommand(), a.trustCommand(), a.doctorCommand(), a.modelServerCommand(), a.schemaCommand(),
		a.versionCommand(),
	)
	wrapArgs(root)
	return root
}

// wrapArgs gives faults in arguments the exit code of usage and the way to the help, for every command.
func wrapArgs(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usageError("%w\nUsage: %s", err, cmd.UseLine())
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		wrapArgs(sub)
	}
}

// group makes a command that only holds others.
func group(use, short string, aliases ...string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Aliases: aliases, Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError("unknown command %q for %q; see %s --help", args[0], cmd.CommandPath(), cmd.CommandPath())
			}
			return cmd.Help()
		},
	}
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Tell which build this is", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if a.json {
				return a.print(a.build)
			}
			fmt.Fprintln(a.out, "harness", a.build)
			return nil
		},
	}
}

var errNoTerminal = errors.New("standard input is not a terminal")
