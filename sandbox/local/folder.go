package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/harness-go/harness/sandbox"
)

// ErrInUse: another session, of this or another process, holds the folder.
var ErrInUse = errors.New("sandbox session is in use")

// A made folder is BaseDir/sessions/<id>: the record, which is also the lock, and the workspace.
const (
	recordName    = "session.json"
	workspaceName = "workspace"
)

// record is what a session's folder remembers. It holds no environment, which may carry secrets.
type record struct {
	ID           string `json:"id"`
	ConfineFiles bool   `json:"confine_files,omitempty"`
}

func (p *Provider) sessionDir(id string) (string, error) {
	base, err := p.base()
	if err != nil {
		return "", err
	}
	name, err := folderName("session id", id)
	if err != nil {
		return "", err
	}
	return filepath.Join(base, "sessions", name), nil
}

// folderName maps an id to a file name, one to one also where file names ignore case.
func folderName(what, id string) (string, error) {
	if id == "" {
		return "", fmt.Errorf("%s is empty", what)
	}
	var b strings.Builder
	for i := range len(id) {
		switch c := id[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02x", c)
		}
	}
	if b.Len() > 200 {
		return "", fmt.Errorf("%s of %d bytes is too long: at most 200 after escaping", what, len(id))
	}
	return b.String(), nil
}

func (p *Provider) createFolder(ctx context.Context, opts sandbox.CreateOptions) (_ sandbox.NetworkSession, err error) {
	dir, err := p.sessionDir(opts.SessionID)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("session %s: %w; resume it instead", opts.SessionID, fs.ErrExist)
		}
		return nil, err
	}
	var lock *os.File
	defer func() {
		if err != nil {
			err = errors.Join(err, removeAll(dir))
			if lock != nil {
				_ = lock.Close()
			}
		}
	}()
	if lock, err = writeRecord(dir, record{ID: opts.SessionID, ConfineFiles: opts.ConfineFiles}); err != nil {
		return nil, err
	}
	work := filepath.Join(dir, workspaceName)
	if err := p.fillWorkspace(ctx, opts, work); err != nil {
		return nil, err
	}
	s, err := p.newSession(opts, work)
	if err != nil {
		return nil, err
	}
	s.made, s.lock = dir, lock
	if opts.OnFirstCreate != nil && opts.Identity == "" {
		// Without an identity each session is its own first.
		if err := opts.OnFirstCreate(ctx, s.Restricted()); err != nil {
			s.lock = nil // the deferred clean-up owns it
			return nil, errors.Join(fmt.Errorf("OnFirstCreate of session %s: %w", s.id, err), s.Stop(context.WithoutCancel(ctx)))
		}
	}
	return s, nil
}

func writeRecord(dir string, r record) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, recordName), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(r)
	if err == nil {
		_, err = f.Write(append(data, '\n'))
	}
	if err == nil {
		err = tryLock(f)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func (p *Provider) resumeFolder(id string) (sandbox.NetworkSession, error) {
	dir, err := p.sessionDir(id)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, recordName), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("session %s: %w; a session in place is created again with its Root", id, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	if err := tryLock(f); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("session %s: %w", id, err)
	}
	var r record
	if err := json.NewDecoder(io.LimitReader(f, 64<<10)).Decode(&r); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("session %s: its record %s cannot be read: %w", id, filepath.Join(dir, recordName), err)
	}
	s, err := p.newSession(sandbox.CreateOptions{SessionID: id, ConfineFiles: r.ConfineFiles}, filepath.Join(dir, workspaceName))
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("session %s: %w", id, err)
	}
	s.made, s.lock = dir, f
	return s, nil
}

// removeAll removes a tree also where it has folders without write permission, as module caches have.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(p, 0o700) // what stays locked is the error of the second try
		}
		return nil
	})
	return os.RemoveAll(dir)
}
