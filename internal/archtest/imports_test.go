package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/harness-go/harness/"

// layers lists the packages from the top down. A package imports only packages of lines below its own.
var layers = [][]string{
	{"cmd/harness", "cmd/harnessd"},
	{"internal/cli", "internal/docgen"},
	{"internal/cli/render"},
	{"internal/daemon"},
	{"internal/httpapi", "internal/apiclient"},
	{"internal/api", "internal/apikey", "internal/metrics", "internal/telemetry"},
	{"internal/telemetry/otlp"},
	{"internal/activity"},
	{"internal/config", "internal/skill"},
	{"internal/engine/dispatchtest"},
	{"internal/engine"},
	{"harness/native"},
	{"harness/harnesstest"},
	{"harness"},
	{"agent"},
	{"control"},
	{"store/sqlite"},
	{"store/storetest"},
	{"store"},
	{"tool/builtin"},
	{"tool/builtin/internal/patch"},
	{"tool"},
	{"sandbox/local", "sandbox/sandboxtest"},
	{"sandbox"},
	{"model/scripted"},
	{"model/wire/chat", "model/wire/gemini", "model/wire/anthropic", "model/wire/responses"},
	{"model/wire/transport", "model/wire/history"},
	{"model/tape"},
	{"model/wire/sse", "model/modeltest"},
	{"model"},
	{"event"},
	{"ai"},
	{"internal/permit", "internal/archtest", "internal/buildinfo"},
}

// edges are the imports between packages of one line, and the ones that look up, each with its reason.
var edges = map[string]string{}

// public packages are the library: they must not need anything of the daemon.
var public = []string{"ai", "agent", "event", "control", "harness", "model", "sandbox", "store", "tool"}

type pkg struct {
	ImportPath string
	Imports    []string
}

func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

func layerOf(name string) int {
	return slices.IndexFunc(layers, func(l []string) bool { return slices.Contains(l, name) })
}

func TestImportsPointDown(t *testing.T) {
	for _, p := range list(t) {
		from, ok := strings.CutPrefix(p.ImportPath, module)
		if !ok {
			continue
		}
		at := layerOf(from)
		if at < 0 {
			t.Errorf("%s is on no layer: put it into this test's list where it belongs", from)
			continue
		}
		for _, imp := range p.Imports {
			to, ok := strings.CutPrefix(imp, module)
			if !ok {
				continue
			}
			if _, allowed := edges[from+" -> "+to]; allowed || layerOf(to) > at {
				continue
			}
			t.Errorf("%s imports %s, which is not below it", from, to)
		}
	}
}

func TestTheLibraryNeedsNothingOfTheDaemon(t *testing.T) {
	for _, p := range list(t) {
		from, ok := strings.CutPrefix(p.ImportPath, module)
		if !ok || !slices.Contains(public, strings.Split(from, "/")[0]) || strings.HasPrefix(from, "internal/") {
			continue
		}
		for _, imp := range p.Imports {
			if to, ok := strings.CutPrefix(imp, module+"internal/"); ok && to != "permit" {
				t.Errorf("%s imports internal/%s", from, to)
			}
		}
	}
}

func TestAbsentPackagesAreNotListed(t *testing.T) {
	var have []string
	for _, p := range list(t) {
		have = append(have, strings.TrimPrefix(p.ImportPath, module))
	}
	for _, l := range layers {
		for _, name := range l {
			if !slices.Contains(have, name) {
				t.Errorf("%s is listed and does not exist", name)
			}
		}
	}
}
