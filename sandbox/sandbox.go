// Package sandbox is the contract between a session and the place where its files and processes live.
//
// A Provider makes sessions. A Session has the basic surface (read, write, run, spawn); a NetworkSession
// adds identity, ports and an end. Two extensions of ours carry the harness's own tools: Files (files by descriptor
// beneath a root) and Exec (an argument vector with standard input, without a shell).
//
// What a session promises: every path is resolved beneath the session's root unless its scope says otherwise; every
// process belongs to the session, is bounded in time by its context and ends, with its whole tree, at the latest when
// the session stops. sandboxtest holds the suite that every implementation passes.
package sandbox

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"time"
)

// Errors that callers branch on.
var (
	// ErrOutside: the path leads out of the session's root.
	ErrOutside = errors.New("path is outside the workspace")
	// ErrNotRegular: the path names a FIFO, device, socket or directory where a file is needed.
	ErrNotRegular = errors.New("not a regular file")
	// ErrStale: the file's version is not the one the caller expected.
	ErrStale = errors.New("file changed since it was read")
	// ErrEnded: the session was stopped or destroyed.
	ErrEnded = errors.New("sandbox session has ended")
)

// Session is the basic surface.
type Session interface {
	// Description tells a model where it is, in a sentence.
	Description() string

	// ReadFile streams a file. A missing file is fs.ErrNotExist.
	ReadFile(ctx context.Context, path string) (io.ReadCloser, error)
	// ReadBinaryFile reads a whole file of at most MaxFileSize bytes.
	ReadBinaryFile(ctx context.Context, path string) ([]byte, error)
	// ReadTextFile reads lines StartLine to EndLine, 1-based and inclusive; zero means from the start or to the end.
	// Reading past the end is not an error.
	ReadTextFile(ctx context.Context, path string, opts ReadTextOptions) (string, error)
	// WriteFile creates parent directories and replaces the file's content.
	WriteFile(ctx context.Context, path string, r io.Reader) error
	WriteBinaryFile(ctx context.Context, path string, data []byte) error
	WriteTextFile(ctx context.Context, path string, text string) error

	// Run runs a shell command to its end. Cancelling ctx kills its whole process tree. A command that was cut short
	// gives what it wrote so far beside the error, which wraps ctx.Err() or ErrEnded; a non-zero exit is no error.
	// Processes that the command left behind are killed before Run returns.
	Run(ctx context.Context, opts CommandOptions) (RunResult, error)
	// Spawn starts a shell command. Cancelling ctx kills its whole process tree, at any time before the command
	// ended. Processes that the command left behind are killed before Process.Wait returns.
	Spawn(ctx context.Context, opts CommandOptions) (Process, error)
}

// MaxFileSize bounds what ReadBinaryFile and ReadTextFile hold in memory, in bytes.
const MaxFileSize = 256 << 20

// ReadTextOptions are the options of ReadTextFile.
type ReadTextOptions struct {
	StartLine, EndLine int
}

// CommandOptions describe a shell command. Env is added to the session's environment, which is built and never
// inherited. A relative WorkingDirectory is taken from the session's default directory and must stay beneath it; empty
// is that directory. Grace is the time between SIGTERM and SIGKILL when the command is ended early, 2 s when zero.
type CommandOptions struct {
	Command          string
	WorkingDirectory string
	Env              map[string]string
	Grace            time.Duration
}

// RunResult is the outcome of a command that ended by itself.
type RunResult struct {
	ExitCode int
	Stdout   string
	Stderr   string
}

// Process is a started command. Stdout and Stderr must be read or closed; Wait returns when the command ended, also
// when a grandchild still holds the pipes. Both can be read to their end after Wait. Wait may be called once by one
// goroutine; its error is why the command was cut short (the context's error or ErrEnded), never its exit code.
type Process interface {
	PID() int
	Stdout() io.ReadCloser
	Stderr() io.ReadCloser
	// Stdin is nil unless the process was started by Exec with OpenStdin.
	Stdin() io.WriteCloser
	Wait() (ExitStatus, error)
	// Kill ends the whole process tree: SIGTERM, a grace period, SIGKILL. It returns when the tree is gone and is
	// safe to call at any time.
	Kill() error
}

// ExitStatus tells how a process ended. Signal is the signal's name, empty when the process exited by itself.
type ExitStatus struct {
	ExitCode int // 128+n after signal n
	Signal   string
}

// NetworkSession is a session with identity and an end of its own.
type NetworkSession interface {
	Session
	ID() string
	// DefaultWorkingDirectory is absolute.
	DefaultWorkingDirectory() string
	Ports() []int
	PortEndpoint(ctx context.Context, port int, protocol string) (Endpoint, error)
	// Stop ends every process and keeps the files. It is idempotent.
	Stop(ctx context.Context) error
	// Destroy stops the session and releases what it owns. It handles a stopped session.
	Destroy(ctx context.Context) error
	// Restricted is the same resource with the basic surface only.
	Restricted() Session
}

// Endpoint is where a sandbox's port can be reached.
type Endpoint struct {
	URL     string
	Headers map[string]string
}

// Provider makes and resumes sessions.
type Provider interface {
	ProviderID() string
	CreateSession(ctx context.Context, opts CreateOptions) (NetworkSession, error)
}

// Resumer is implemented by providers that can find a stopped session again.
type Resumer interface {
	ResumeSession(ctx context.Context, sessionID string) (NetworkSession, error)
}

// CreateOptions describe a new session. Identity names a template: OnFirstCreate runs once per identity. Scope and
// Network are what the session must enforce; a provider that cannot enforce them returns *UnsupportedError.
type CreateOptions struct {
	SessionID     string
	Identity      string
	OnFirstCreate func(ctx context.Context, s Session) error

	// Root is the folder that the session works in, for sessions in place. Empty: the provider makes one.
	Root    string
	Scope   Scope
	Network Network
	// Env is the whole environment of the session's processes beyond what the provider sets itself.
	Env map[string]string
	// ConfineFiles holds the file tools beneath the root even where the scope lets them go anywhere. It is a check of
	// the file tools, not a boundary for processes.
	ConfineFiles bool
}

// Scope bounds what a session's processes and file tools can touch. The zero value is ScopeUnrestricted.
type Scope string

// The scopes, from loose to strict.
const (
	ScopeUnrestricted Scope = "unrestricted"
	ScopeLocal        Scope = "local"
	ScopeWorkspace    Scope = "workspace"
)

// Network bounds what a session can reach. The zero value is NetworkAllow.
type Network struct {
	Mode  NetworkMode
	Hosts []string
}

// NetworkMode is a network policy.
type NetworkMode string

// The network modes, from loose to strict.
const (
	NetworkAllow NetworkMode = "allow"
	NetworkHosts NetworkMode = "hosts"
	NetworkDeny  NetworkMode = "deny"
)

// UnsupportedError: the provider cannot enforce what was asked. Nothing was created.
type UnsupportedError struct {
	What   string // e.g. "sandbox scope workspace"
	Reason string
}

func (e *UnsupportedError) Error() string { return e.What + " is not available: " + e.Reason }

// Execer runs an argument vector without a shell.
type Execer interface {
	Exec(ctx context.Context, opts ExecOptions) (Process, error)
}

// ExecOptions describe a process. Stdin is copied to it and closed; with OpenStdin the caller writes to
// Process.Stdin instead. Grace is the time between SIGTERM and SIGKILL, 2 s when zero.
type ExecOptions struct {
	Argv      []string
	Dir       string
	Env       map[string]string
	Stdin     io.Reader
	OpenStdin bool
	Grace     time.Duration
}

// Files opens paths by descriptor beneath the session's root, so that no rename or link between check and use leads
// elsewhere. Relative paths start at the default working directory; absolute ones are accepted where the scope allows
// them. Open and Replace refuse FIFOs, devices and sockets without blocking (ErrNotRegular); Stat and ReadDir name them.
type Files interface {
	// Open opens a regular file for reading.
	Open(ctx context.Context, path string) (File, error)
	// Stat follows links that stay inside.
	Stat(ctx context.Context, path string) (fs.FileInfo, error)
	// ReadDir lists a directory in name order.
	ReadDir(ctx context.Context, path string) ([]fs.DirEntry, error)
	// Replace writes the whole content atomically (temporary file, sync, rename), creating parent directories and
	// keeping the mode of an existing file. A link that stays inside is written through, to the file it leads to; other
	// hard links to the old content keep it. See ReplaceOptions for what is checked first.
	Replace(ctx context.Context, path string, data []byte, opts ReplaceOptions) error
	// Walk calls fn for each entry below root in lexical order without following links. fn may return fs.SkipDir
	// or fs.SkipAll. Paths are relative to the default working directory where they lie below it. A directory that
	// cannot be read is passed to fn and its content left out.
	Walk(ctx context.Context, root string, fn func(path string, d fs.DirEntry) error) error
	// Display is the path as people should see it: relative to the default working directory where possible.
	Display(path string) string
}

// File is an open regular file.
type File interface {
	io.Reader
	io.ReaderAt
	io.Closer
	Stat() (fs.FileInfo, error)
}

// ReplaceOptions guard a Replace. ExpectedVersion is the Version of the content that the caller saw; another content,
// or none, is ErrStale. With MustNotExist an existing file is fs.ErrExist. Perm are the permission bits that the file
// gets; zero keeps those of an existing file and gives a new one what the process's umask leaves of 0666.
type ReplaceOptions struct {
	ExpectedVersion string
	MustNotExist    bool
	Perm            fs.FileMode
}

// Remover is a Files that can remove files too.
type Remover interface {
	// Remove takes away a regular file, never a directory; a symbolic link is ErrNotRegular, and what it leads to stays.
	// A missing file is fs.ErrNotExist. See RemoveOptions for what is checked first. Directories that become empty stay.
	Remove(ctx context.Context, path string, opts RemoveOptions) error
}

// RemoveOptions guard a Remove. ExpectedVersion is the Version of the content that the caller saw; another content is
// ErrStale.
type RemoveOptions struct {
	ExpectedVersion string
}

// Reporter is implemented by sessions that can say what they enforce.
type Reporter interface {
	Report() Report
}

// Report is what a session enforces. Notes are whole sentences about what is not enforced.
type Report struct {
	Tier  int
	Scope Scope
	Notes []string
}
