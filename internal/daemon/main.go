package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/mattn/go-isatty"
	"github.com/spf13/pflag"

	"github.com/harness-go/harness/internal/buildinfo"
	"github.com/harness-go/harness/internal/config"
	"github.com/harness-go/harness/tool/builtin"
)

// Exit codes of harnessd.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

const usage = `harnessd serves durable agent runs over HTTP.

Usage: harnessd [flags]

Every flag can also be set in harness.yaml or in the environment; docs/configuration.md has the order.
Try it without a key: HARNESS_PROVIDER=fake HARNESS_AUTH_DISABLED=true harnessd

Flags:
`

// Main is the program harnessd: it serves a node until SIGINT or SIGTERM and returns the exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	fs := pflag.NewFlagSet("harnessd", pflag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {}
	sources := config.AddFlags(fs)
	version := fs.Bool("version", false, "print the version and exit")
	switch err := fs.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprint(stdout, usage+fs.FlagUsages())
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "harnessd: %v\nRun harnessd --help for the flags.\n", err)
		return exitUsage
	case fs.NArg() > 0:
		fmt.Fprintf(stderr, "harnessd: unexpected argument %q\nRun harnessd --help for the flags.\n", fs.Arg(0))
		return exitUsage
	case *version:
		fmt.Fprintln(stdout, "harnessd", buildinfo.Read())
		return exitOK
	}
	src, err := sources()
	if err != nil {
		fmt.Fprintln(stderr, "harnessd:", err)
		return exitFailed
	}
	return Run(context.Background(), src, stderr)
}

// Run loads the configuration and serves until SIGINT or SIGTERM. A second signal ends the process at once. It
// returns the exit code; what went wrong is on stderr.
func Run(ctx context.Context, src config.Sources, stderr io.Writer) int {
	started := TuneMemory()
	go builtin.Core() // is made once, beside the reading of the configuration
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	c, err := config.Load(src)
	if err != nil {
		fmt.Fprintln(stderr, "harnessd:", err)
		return exitUsage
	}
	o := Options{Config: c, Version: buildinfo.Read().Version, Logger: NewLogger(stderr, textLog(c.LogFormat, stderr), c.LogLevel)}
	if err := Serve(ctx, o, func(net.Addr) { started() }); err != nil {
		fmt.Fprintln(stderr, "harnessd:", err)
		return exitFailed
	}
	return exitOK
}

// textLog decides between lines for people and JSON.
func textLog(format string, w io.Writer) bool {
	return format == "text" || format == "auto" && isTerminal(w)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
