package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/config"
	"github.com/harness-go/harness/store"
)

// The exit codes of harness.
const (
	ExitOK          = 0   // done; of a run: completed
	ExitFailed      = 1   // failed
	ExitUsage       = 2   // wrong arguments, configuration or request
	ExitCancelled   = 3   // the run was cancelled
	ExitWaiting     = 4   // the run waits for a person
	ExitUnreachable = 5   // no daemon, connection or valid key
	ExitInterrupted = 130 // stopped by Ctrl-C without a change to the run
)

const exitHelp = `Exit codes: 0 completed, 1 failed, 2 usage or configuration, 3 cancelled, 4 waiting for a person,
5 daemon or connection trouble, 130 interrupted without a change to the run.`

// exitError ends the program with a code. An empty message means that everything was said.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func exit(code int) error {
	if code == ExitOK {
		return nil
	}
	return &exitError{code: code}
}

func usageError(format string, args ...any) error {
	return &exitError{ExitUsage, fmt.Errorf(format, args...)}
}

func unreachable(format string, args ...any) error {
	return &exitError{ExitUnreachable, fmt.Errorf(format, args...)}
}

// codeOf finds the exit code of an error.
func codeOf(err error) int {
	if err == nil {
		return ExitOK
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	if errors.Is(err, context.Canceled) {
		return ExitInterrupted
	}
	if p, ok := errors.AsType[*api.Problem](err); ok {
		switch p.Status {
		case http.StatusBadRequest, http.StatusNotImplemented, http.StatusRequestEntityTooLarge:
			return ExitUsage
		case http.StatusUnauthorized, http.StatusForbidden, http.StatusMisdirectedRequest, http.StatusServiceUnavailable:
			return ExitUnreachable
		}
		return ExitFailed
	}
	if _, ok := errors.AsType[*config.Error](err); ok {
		return ExitUsage
	}
	if isConnection(err) || errors.Is(err, store.ErrLocked) {
		return ExitUnreachable
	}
	return ExitFailed
}

// isConnection reports whether a request did not get through.
func isConnection(err error) bool {
	if _, ok := errors.AsType[*api.Problem](err); ok {
		return false
	}
	if errors.Is(err, context.Canceled) {
		return false
	}
	_, isURL := errors.AsType[*url.Error](err)
	_, isNet := errors.AsType[*net.OpError](err)
	return isURL || isNet
}

// message is what a person reads of an error.
func message(err error) string {
	if p, ok := errors.AsType[*api.Problem](err); ok {
		s := p.Detail
		if s == "" {
			s = p.Title
		}
		for _, f := range p.Errors {
			if !strings.Contains(s, f.Field) {
				s += "\n  " + f.Field + ": " + f.Message
			}
		}
		switch p.Status {
		case http.StatusUnauthorized:
			s += "\nGive a key in HARNESS_API_KEY, or name another variable with --api-key-env. On the daemon's machine: harness keys create --name NAME"
		case http.StatusInternalServerError:
			if p.Instance != "" {
				s += " (" + p.Instance + ")"
			}
		}
		return s
	}
	return err.Error()
}
