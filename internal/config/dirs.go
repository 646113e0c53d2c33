package config

import (
	"os"
	"path/filepath"
)

// UserDir is the user's configuration folder, empty where the environment names no home.
func UserDir() string {
	base, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(base, "harness")
}

// stateDir is the default state folder by the XDG rules: a relative XDG_STATE_HOME does not count. It is empty where
// the environment names no home.
func stateDir(env map[string]string) string {
	if x := env["XDG_STATE_HOME"]; filepath.IsAbs(x) {
		return filepath.Join(x, "harness")
	}
	if home := env["HOME"]; filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "harness")
	}
	return ""
}
