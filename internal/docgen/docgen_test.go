package docgen

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the generated pages anew")

const root = "../.."

func TestGeneratedPagesFollowTheCode(t *testing.T) {
	if *update {
		if err := Write(root); err != nil {
			t.Fatal(err)
		}
	}
	for name, make := range Pages(root) {
		want, err := make()
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), string(got)); d != "" {
			t.Errorf("%s is stale; run go test ./internal/docgen -update\n%s", name, d)
		}
	}
}

func TestEveryKindHasItsPayloadAndItsComment(t *testing.T) {
	src, err := read(filepath.Join(root, "event"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := Events(filepath.Join(root, "event"))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range src.kinds {
		if !strings.Contains(string(page), "\n## "+k.name+"\n") {
			t.Errorf("%s is missing", k.name)
		}
	}
}
