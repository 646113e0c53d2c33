package harness

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/harness-go/harness/sandbox"
)

// checkSandboxConfig checks what can be checked before a session exists.
func checkSandboxConfig(c AgentSandboxConfig) error {
	if c.WorkDir != "" {
		if _, err := normalizeWorkDir(c.WorkDir); err != nil {
			return err
		}
	}
	switch {
	case c.InPlace && !filepath.IsAbs(c.InPlaceRoot):
		return errors.New("HarnessAgent: `sandboxConfig.inPlace` needs an absolute `sandboxConfig.inPlaceRoot`.")
	case !c.InPlace && c.InPlaceRoot != "":
		return errors.New("HarnessAgent: `sandboxConfig.inPlaceRoot` needs `sandboxConfig.inPlace`.")
	}
	return nil
}

// normalizeWorkDir checks a relative working directory and returns its clean form.
func normalizeWorkDir(dir string) (string, error) {
	bad := func(what string) (string, error) {
		return "", errors.New("HarnessAgent: `sandboxConfig.workDir` must " + what)
	}
	switch {
	case dir == "":
		return bad("not be empty.")
	case strings.Contains(dir, "\x00"):
		return bad("not contain NUL.")
	case strings.Contains(dir, `\`):
		return bad("use POSIX path separators.")
	case path.IsAbs(dir):
		return bad("be relative.")
	}
	clean := path.Clean(dir)
	if clean == "." || clean == ".." || strings.HasPrefix(clean, "../") {
		return bad("stay inside the sandbox default working directory.")
	}
	return clean, nil
}

// workspace is a session's sandbox and its place in it.
type workspace struct {
	session sandbox.Session
	// network is nil for a basic session of the caller.
	network sandbox.NetworkSession
	owned   bool
	workDir string
}

// acquire gets the sandbox of a session: the caller's, a resumed one or a new one. On an error an owned sandbox was
// stopped.
func (a *Agent) acquire(ctx context.Context, sessionID string, resume bool, given sandbox.Session) (*workspace, error) {
	switch {
	case given != nil:
		w := &workspace{session: given}
		w.network, _ = given.(sandbox.NetworkSession)
		return w, a.prepare(ctx, w, sessionID)
	case a.set.Sandbox == nil:
		return nil, errors.New("HarnessAgent.createSession: configure `sandbox` on HarnessAgent or pass `sandboxSession` to createSession().")
	case a.set.SandboxConfig.InPlace:
		return a.inPlace(sessionID), nil
	}
	n, err := a.openSandbox(ctx, sessionID, resume)
	if err != nil {
		return nil, err
	}
	w := &workspace{session: n, network: n, owned: true}
	if err := a.prepare(ctx, w, sessionID); err != nil {
		w.stop(ctx)
		return nil, err
	}
	return w, nil
}

func (a *Agent) openSandbox(ctx context.Context, sessionID string, resume bool) (sandbox.NetworkSession, error) {
	p := a.set.Sandbox
	if !resume {
		c := a.set.SandboxConfig
		return p.CreateSession(ctx, sandbox.CreateOptions{
			SessionID: sessionID, Root: c.InPlaceRoot, Scope: c.Scope, Network: c.Network, Env: c.Env, ConfineFiles: c.ConfineFiles,
		})
	}
	r, ok := p.(sandbox.Resumer)
	if !ok {
		return nil, NewCapabilityUnsupportedError(fmt.Sprintf("Sandbox provider '%s' does not support resume.", p.ProviderID()), "", nil)
	}
	return r.ResumeSession(ctx, sessionID)
}

// inPlace is a workspace whose sandbox is made on first use.
func (a *Agent) inPlace(sessionID string) *workspace {
	c := a.set.SandboxConfig
	w := &workspace{owned: true, workDir: a.joinWorkDir(filepath.Clean(c.InPlaceRoot), sessionID)}
	lazy := &lazySession{
		id: sessionID, dir: filepath.Clean(c.InPlaceRoot),
		open: func(ctx context.Context) (sandbox.NetworkSession, error) {
			n, err := a.openSandbox(ctx, sessionID, false)
			if err != nil {
				return nil, err
			}
			if err := a.ready(ctx, n, n.Restricted(), w.workDir); err != nil {
				_ = n.Stop(context.WithoutCancel(ctx)) // the first error is the one to report
				return nil, err
			}
			return n, nil
		},
	}
	w.session, w.network = lazy, lazy
	return w
}

// prepare finds and makes the working directory.
func (a *Agent) prepare(ctx context.Context, w *workspace, sessionID string) error {
	dir, restricted := "", w.session
	if w.network != nil {
		dir, restricted = w.network.DefaultWorkingDirectory(), w.network.Restricted()
	} else {
		r, err := w.session.Run(ctx, sandbox.CommandOptions{Command: "pwd"})
		if err != nil {
			return fmt.Errorf("HarnessAgent.createSession: find the sandbox's working directory: %w", err)
		}
		dir = strings.TrimRight(r.Stdout, "\r\n")
	}
	if !path.IsAbs(dir) {
		return errors.New("HarnessAgent.createSession: the sandbox's default working directory must be an absolute path.")
	}
	w.workDir = a.joinWorkDir(dir, sessionID)
	return a.ready(ctx, w.session, restricted, w.workDir)
}

// ready makes the working directory where it is not the sandbox's own, and calls OnSession.
func (a *Agent) ready(ctx context.Context, s, restricted sandbox.Session, workDir string) error {
	c := a.set.SandboxConfig
	if !c.InPlace || c.WorkDir != "" {
		r, err := s.Run(ctx, sandbox.CommandOptions{Command: `mkdir -p "$WORK_DIR"`, Env: map[string]string{"WORK_DIR": workDir}})
		if err != nil {
			return fmt.Errorf("HarnessAgent.createSession: make the working directory: %w", err)
		}
		if r.ExitCode != 0 {
			return fmt.Errorf("HarnessAgent.createSession: make the working directory %s: exit code %d: %s", workDir, r.ExitCode, strings.TrimSpace(r.Stderr))
		}
	}
	if c.OnSession == nil {
		return nil
	}
	if err := c.OnSession(ctx, restricted, workDir); err != nil {
		return fmt.Errorf("HarnessAgent: `sandboxConfig.onSession`: %w", err)
	}
	return nil
}

func (a *Agent) joinWorkDir(base, sessionID string) string {
	c := a.set.SandboxConfig
	if c.WorkDir != "" {
		clean, err := normalizeWorkDir(c.WorkDir)
		if err == nil { // checked by NewAgent
			return path.Join(base, clean)
		}
	}
	if c.InPlace {
		return base
	}
	return path.Join(base, a.HarnessID()+"-"+sessionID)
}

// stop stops an owned sandbox.
func (w *workspace) stop(ctx context.Context) error {
	if !w.owned || w.network == nil {
		return nil
	}
	return w.network.Stop(context.WithoutCancel(ctx))
}

// destroy destroys an owned sandbox.
func (w *workspace) destroy(ctx context.Context) error {
	if !w.owned || w.network == nil {
		return nil
	}
	return w.network.Destroy(context.WithoutCancel(ctx))
}
