package sandbox

import (
	"strings"
	"testing"
)

func TestVersionIsTheSameHeldOrStreamed(t *testing.T) {
	for text, want := range map[string]string{"": "e3b0c44298fc1c14", "abc": "ba7816bf8f01cfea"} {
		got, err := VersionOf(strings.NewReader(text))
		if err != nil || got != want || Version([]byte(text)) != want {
			t.Errorf("%q: %s and %s, %v; want %s", text, Version([]byte(text)), got, err, want)
		}
	}
}
