package config

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// WorkspaceFile is the settings file of a workspace as it was found.
type WorkspaceFile struct {
	// Path is where it stands.
	Path string
	// Digest is the SHA-256 of its content, in hex. Trust is given to a digest, so that any change voids it.
	Digest string
	// Content is the file as it was read.
	Content []byte
}

const workspaceFile = ".harness/harness.yaml"

// FindWorkspaceFile reads the settings file of a workspace, nil where there is none. A link that leads out of the
// workspace is an error.
func FindWorkspaceFile(workspace string) (*WorkspaceFile, error) {
	name := filepath.Join(workspace, filepath.FromSlash(workspaceFile))
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return nil, &Error{Source: workspace, Message: "cannot be read: " + cause(err)}
	}
	defer root.Close()
	data, err := readFile(func() (fs.File, error) {
		return root.OpenFile(workspaceFile, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}, name)
	if err != nil || data == nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	return &WorkspaceFile{Path: name, Digest: hex.EncodeToString(sum[:]), Content: data}, nil
}

// trustFile holds one line for each trusted content: its digest, and the path it was seen at, for people.
func trustFile(userDir string) string { return filepath.Join(userDir, "trusted") }

// Trusted reports whether a person trusted the content. An unreadable list trusts nothing.
func (f *WorkspaceFile) Trusted(userDir string) (bool, error) {
	if userDir == "" {
		return false, nil
	}
	data, err := readFile(openPlain(trustFile(userDir)), trustFile(userDir))
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(data)) {
		digest, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if digest == f.Digest {
			return true, nil
		}
	}
	return false, nil
}

// Check reports what would be wrong with the file if it were trusted.
func (f *WorkspaceFile) Check() error {
	_, err := f.parse()
	return err
}

func (f *WorkspaceFile) parse() (document, error) {
	return parseFile(f.Path, f.Content, func(s setting) bool { return s.workspace })
}

// Trust records that a person trusts the content. A file that could not be used is refused.
func (f *WorkspaceFile) Trust(userDir string) error {
	if userDir == "" {
		return &Error{Source: "HOME", Message: "is not set, so there is no configuration folder to keep trust in"}
	}
	if err := f.Check(); err != nil {
		return err
	}
	ok, err := f.Trusted(userDir)
	if err != nil || ok {
		return err
	}
	if err := os.MkdirAll(userDir, 0o700); err != nil {
		return &Error{Source: userDir, Message: "cannot be made: " + cause(err)}
	}
	name := trustFile(userDir)
	old, err := readFile(openPlain(name), name)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	w := bufio.NewWriter(&b)
	_, _ = w.Write(old)
	if len(old) > 0 && old[len(old)-1] != '\n' {
		_ = w.WriteByte('\n')
	}
	// The path is quoted: a line break in it would otherwise be a second entry.
	_, _ = fmt.Fprintf(w, "%s %q\n", f.Digest, f.Path)
	_ = w.Flush()
	return writeFile(name, b.Bytes())
}

// writeFile replaces a file at once: a reader sees the old or the new content.
func writeFile(name string, data []byte) (err error) {
	fail := func(err error) error { return &Error{Source: name, Message: "cannot be written: " + cause(err)} }
	tmp, err := os.CreateTemp(filepath.Dir(name), ".tmp-*")
	if err != nil {
		return fail(err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp.Name())
		}
	}()
	if _, err = tmp.Write(data); err == nil {
		err = tmp.Sync()
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), name)
	}
	if err != nil {
		return fail(err)
	}
	return nil
}
