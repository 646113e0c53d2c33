package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/harness-go/harness/sandbox"
)

// A template is BaseDir/templates/<identity>: the workspace that OnFirstCreate left, and a marker written when it had
// ended well. A template without its marker was cut short and is made again.
const readyName = "ready"

// fillWorkspace makes the workspace, as a copy of its identity's template where there is one. Links are copied as they
// are: ones that name the template by an absolute path still do.
func (p *Provider) fillWorkspace(ctx context.Context, opts sandbox.CreateOptions, work string) error {
	if opts.Identity == "" || opts.OnFirstCreate == nil {
		return os.Mkdir(work, 0o700)
	}
	name, err := folderName("CreateOptions.Identity", opts.Identity)
	if err != nil {
		return err
	}
	base, err := p.base()
	if err != nil {
		return err
	}
	dir := filepath.Join(base, "templates", name)
	err = p.once(ctx, dir, func() error {
		return p.makeTemplate(ctx, opts, dir)
	})
	if err != nil {
		return fmt.Errorf("identity %s: %w", opts.Identity, err)
	}
	if err := os.Mkdir(work, 0o700); err != nil {
		return err
	}
	return os.CopyFS(work, os.DirFS(filepath.Join(dir, workspaceName)))
}

func (p *Provider) makeTemplate(ctx context.Context, opts sandbox.CreateOptions, dir string) (err error) {
	work := filepath.Join(dir, workspaceName)
	if err := removeAll(work); err != nil {
		return err
	}
	if err := os.Mkdir(work, 0o700); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, removeAll(work))
		}
	}()
	s, err := p.newSession(opts, work)
	if err != nil {
		return err
	}
	if err := opts.OnFirstCreate(ctx, s.Restricted()); err != nil {
		return errors.Join(fmt.Errorf("OnFirstCreate: %w", err), s.Stop(context.WithoutCancel(ctx)))
	}
	return s.Stop(context.WithoutCancel(ctx))
}

// firstCreateInPlace runs OnFirstCreate in the user's folder. Its marker is kept in BaseDir, never in that folder.
func (p *Provider) firstCreateInPlace(ctx context.Context, opts sandbox.CreateOptions, s *session) error {
	run := func() error {
		if err := opts.OnFirstCreate(ctx, s.Restricted()); err != nil {
			return fmt.Errorf("OnFirstCreate of session %s: %w", s.id, err)
		}
		return nil
	}
	if opts.Identity == "" {
		return run()
	}
	name, err := folderName("CreateOptions.Identity", opts.Identity)
	if err != nil {
		return err
	}
	base, err := p.base()
	if err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(s.dir)
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(real))
	return p.once(ctx, filepath.Join(base, "in-place", name, hex.EncodeToString(sum[:8])), run)
}

// once runs fn unless it ended well before for this folder, in this or any other process. fn runs under the folder's
// lock.
func (p *Provider) once(ctx context.Context, dir string, fn func() error) error {
	ready := filepath.Join(dir, readyName)
	if _, err := os.Stat(ready); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := waitLock(ctx, lock, 0); err != nil {
		return err
	}
	if _, err := os.Stat(ready); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := fn(); err != nil {
		return err
	}
	return os.WriteFile(ready, nil, 0o600)
}

// waitLock takes f's lock. It gives up with ctx, and after limit unless that is zero.
func waitLock(ctx context.Context, f *os.File, limit time.Duration) error {
	if err := tryLock(f); !errors.Is(err, ErrInUse) {
		return err
	}
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	pause := 100 * time.Microsecond
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the lock of %s: %w", f.Name(), ctx.Err())
		case <-timer.C:
		}
		if err := tryLock(f); !errors.Is(err, ErrInUse) {
			return err
		}
		pause = min(2*pause, 50*time.Millisecond)
		timer.Reset(pause)
	}
}
