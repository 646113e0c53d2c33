package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/harness-go/harness/sandbox"
)

// Options configure a Provider. The zero value works.
type Options struct {
	// BaseDir holds the folders of sessions without a Root, and templates. It must be absolute and the daemon's own.
	// Empty: a folder of this user's own beneath os.TempDir, which a restart of the machine may empty.
	BaseDir string
	// PassEnv names more variables of the host that processes get. A name that looks like a secret is an error of
	// CreateSession: give such values by CreateOptions.Env, session by session.
	PassEnv []string
	// HostEnv is the environment that passing picks from, as of os.Environ, which is taken when it is nil.
	HostEnv []string
	// MaxOutput bounds what Run keeps of each stream, in bytes; 32 MiB when zero. The middle of more is left out.
	MaxOutput int
	// MaxProcesses bounds the commands of a session that are alive at the same time; 256 when zero.
	MaxProcesses int
}

const (
	defaultMaxOutput    = 32 << 20
	defaultMaxProcesses = 256
)

// Provider makes tier 0 sessions. It is safe for concurrent use and needs no closing.
type Provider struct {
	opts    Options
	host    func() hostEnv
	base    func() (string, error)
	starter starter
}

var (
	_ sandbox.Provider = (*Provider)(nil)
	_ sandbox.Resumer  = (*Provider)(nil)
)

// NewProvider returns a provider. It touches nothing: mistakes in opts are errors of CreateSession.
func NewProvider(opts Options) *Provider {
	if opts.MaxOutput <= 0 {
		opts.MaxOutput = defaultMaxOutput
	}
	if opts.MaxProcesses <= 0 {
		opts.MaxProcesses = defaultMaxProcesses
	}
	p := &Provider{opts: opts}
	p.host = sync.OnceValue(func() hostEnv { return pickHostEnv(opts.HostEnv, opts.PassEnv) })
	p.base = sync.OnceValues(func() (string, error) { return ownBaseDir(opts.BaseDir) })
	return p
}

// ProviderID is "local".
func (p *Provider) ProviderID() string { return "local" }

// CreateSession makes a session. With opts.Root it works in place in that folder, which must exist, be absolute and is
// never deleted; such a session leaves no record and is resumed by creating it again. Without it a folder is made for
// opts.SessionID: an id that has one already is fs.ErrExist. With an Identity, that folder starts as a copy of what
// OnFirstCreate left in the first one; in place, OnFirstCreate runs once for each identity and folder.
//
// What the kernel would have to enforce is *sandbox.UnsupportedError. After any error nothing is left behind.
func (p *Provider) CreateSession(ctx context.Context, opts sandbox.CreateOptions) (sandbox.NetworkSession, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := checkEnforceable(opts); err != nil {
		return nil, err
	}
	if err := checkEnv("CreateOptions.Env", opts.Env); err != nil {
		return nil, err
	}
	if err := p.host().err; err != nil {
		return nil, err
	}
	if opts.SessionID == "" {
		opts.SessionID = strings.ToLower(rand.Text())
	}
	if opts.Root != "" {
		return p.createInPlace(ctx, opts)
	}
	return p.createFolder(ctx, opts)
}

func (p *Provider) createInPlace(ctx context.Context, opts sandbox.CreateOptions) (sandbox.NetworkSession, error) {
	if strings.ContainsRune(opts.Root, 0) || !filepath.IsAbs(opts.Root) {
		return nil, fmt.Errorf("CreateOptions.Root %q: must be an absolute path", opts.Root)
	}
	s, err := p.newSession(opts, filepath.Clean(opts.Root))
	if err != nil {
		return nil, fmt.Errorf("CreateOptions.Root: %w", err)
	}
	if opts.OnFirstCreate != nil {
		if err := p.firstCreateInPlace(ctx, opts, s); err != nil {
			return nil, errors.Join(err, s.Destroy(context.WithoutCancel(ctx)))
		}
	}
	return s, nil
}

// ResumeSession finds a session's folder again, after Stop or after the end of the process that made it. The
// environment of CreateOptions is not kept and must be given to each command. It is fs.ErrNotExist for an unknown id
// and for sessions in place, and ErrInUse while another session holds the folder.
func (p *Provider) ResumeSession(ctx context.Context, sessionID string) (sandbox.NetworkSession, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := p.host().err; err != nil {
		return nil, err
	}
	return p.resumeFolder(sessionID)
}

// checkEnforceable refuses what tier 0 cannot hold.
func checkEnforceable(opts sandbox.CreateOptions) error {
	const reason = "the kernel sandbox is not built on this node yet"
	switch opts.Scope {
	case "", sandbox.ScopeUnrestricted:
	case sandbox.ScopeLocal, sandbox.ScopeWorkspace:
		return &sandbox.UnsupportedError{What: "sandbox scope " + string(opts.Scope), Reason: reason}
	default:
		return fmt.Errorf("CreateOptions.Scope %q: use unrestricted, local or workspace", opts.Scope)
	}
	switch opts.Network.Mode {
	case "", sandbox.NetworkAllow:
		if len(opts.Network.Hosts) > 0 {
			return errors.New("CreateOptions.Network: hosts are listed, but the mode is allow; use mode hosts")
		}
	case sandbox.NetworkHosts, sandbox.NetworkDeny:
		return &sandbox.UnsupportedError{What: "network mode " + string(opts.Network.Mode), Reason: reason}
	default:
		return fmt.Errorf("CreateOptions.Network.Mode %q: use allow, hosts or deny", opts.Network.Mode)
	}
	return nil
}

// ownBaseDir makes and checks the folder of folders. The default has a name that others can guess, so it must not have
// been put there by another user.
func ownBaseDir(dir string) (string, error) {
	if dir == "" {
		dir = filepath.Join(os.TempDir(), fmt.Sprintf("harness-sandbox-%d", os.Getuid()))
	}
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("local.Options.BaseDir %q: must be an absolute path", dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("local.Options.BaseDir: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", fmt.Errorf("local.Options.BaseDir: %w", err)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		if dir, err = filepath.EvalSymlinks(dir); err != nil {
			return "", fmt.Errorf("local.Options.BaseDir: %w", err)
		}
		if info, err = os.Lstat(dir); err != nil {
			return "", fmt.Errorf("local.Options.BaseDir: %w", err)
		}
	}
	if uid, ok := ownerOf(info); ok && uid != os.Getuid() {
		return "", fmt.Errorf("local.Options.BaseDir %s: belongs to user %d, not to this process's user %d", dir, uid, os.Getuid())
	}
	if info.Mode().Perm()&0o022 != 0 {
		return "", fmt.Errorf("local.Options.BaseDir %s: others may write to it (mode %v); make it 0700", dir, info.Mode().Perm())
	}
	return filepath.Clean(dir), nil
}
