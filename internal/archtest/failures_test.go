package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	namedPackage = regexp.MustCompile("`([a-z]+(?:/[a-z]+)*)`((?: (?:Test|Run)[A-Za-z0-9_]+,?)+)")
	namedTest    = regexp.MustCompile(`(?:Test|Run)[A-Za-z0-9_]+`)
)

// Every test that the page of failure modes names exists where the page says.
func TestFailureModesNameTestsThatExist(t *testing.T) {
	page, err := os.ReadFile("../../docs/failure-modes.md")
	if err != nil {
		t.Fatal(err)
	}
	code := map[string]string{}
	found := 0
	for _, m := range namedPackage.FindAllStringSubmatch(string(page), -1) {
		dir := m[1]
		if _, ok := code[dir]; !ok {
			files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
			if err != nil || len(files) == 0 {
				t.Errorf("the page names the package %s, which does not exist", dir)
			}
			var all strings.Builder
			for _, f := range files {
				b, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				all.Write(b)
			}
			code[dir] = all.String()
		}
		for _, name := range namedTest.FindAllString(m[2], -1) {
			found++
			if !strings.Contains(code[dir], "func "+name+"(") {
				t.Errorf("%s has no %s", dir, name)
			}
		}
	}
	if found < 80 {
		t.Errorf("only %d tests are named", found)
	}
}
