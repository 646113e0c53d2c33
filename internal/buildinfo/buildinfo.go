// Package buildinfo tells which build of the program runs.
package buildinfo

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// version can be set by the linker: -ldflags "-X github.com/harness-go/harness/internal/buildinfo.version=v1.2.3".
var version string

// Info describes the build.
type Info struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	// Modified: the source had changes that were not committed.
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// Read returns the build's description. A build without a version is "dev".
func Read() Info {
	i := Info{Version: version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	b, ok := debug.ReadBuildInfo()
	if ok {
		for _, s := range b.Settings {
			switch s.Key {
			case "vcs.revision":
				i.Commit = s.Value
			case "vcs.modified":
				i.Modified = s.Value == "true"
			}
		}
		if v := b.Main.Version; i.Version == "" && v != "" && v != "(devel)" {
			i.Version = v
		}
	}
	if i.Version == "" {
		i.Version = "dev"
	}
	return i
}

// String is the description in one line.
func (i Info) String() string {
	s := i.Version
	if i.Commit != "" && !strings.Contains(i.Version, i.Commit[:min(12, len(i.Commit))]) {
		s += " (" + i.Commit[:min(12, len(i.Commit))]
		if i.Modified {
			s += ", modified"
		}
		s += ")"
	}
	return s + " " + i.Go + " " + i.OS + "/" + i.Arch
}
