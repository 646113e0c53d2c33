package tool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Link gives a session everything that another one keeps. Artifacts do not change, so both have the same files, and
// each can be removed without the other. A session without artifacts gives nothing. Linking again is no error.
func (s *ArtifactStore) Link(from, to string) error {
	src, dst := sessionDir(from), sessionDir(to)
	entries, err := fs.ReadDir(s.root.FS(), src)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && len(entries) == 0) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("artifacts of session %s: %w", from, err)
	}
	if err := s.root.Mkdir(dst, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("artifacts of session %s: %w", to, err)
	}
	for _, e := range entries {
		name := e.Name()
		if strings.HasSuffix(name, partSuffix) {
			continue
		}
		err := s.root.Link(filepath.Join(src, name), filepath.Join(dst, name))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("artifacts of session %s: %w", to, err)
		}
	}
	for _, dir := range []string{dst, "."} { // as durable as what names them
		if err := s.syncDir(dir); err != nil {
			return fmt.Errorf("artifacts of session %s: %w", to, err)
		}
	}
	return nil
}

func (s *ArtifactStore) syncDir(dir string) error {
	d, err := s.root.OpenFile(dir, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
