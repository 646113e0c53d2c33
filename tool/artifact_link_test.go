package tool

import "testing"

func TestLinkedArtifactsAreTheSameAndRemovedApart(t *testing.T) {
	s := testStore(t, t.TempDir(), ArtifactLimits{})
	id := keep(t, s.Session("a"), "kept")
	unfinished, err := s.Session("a").Create(t.Context(), "c2")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Link("a", "b"); err != nil {
			t.Fatal(err)
		}
	}
	unfinished.Discard()
	if err := s.Link("none", "c"); err != nil {
		t.Fatal(err)
	}
	if got := contentOf(t, s.Session("b"), id); got != "kept" {
		t.Errorf("%q", got)
	}
	if err := s.Remove("a"); err != nil {
		t.Fatal(err)
	}
	if got := contentOf(t, s.Session("b"), id); got != "kept" {
		t.Errorf("%q after the other one's removal", got)
	}
	if _, err := s.Session("a").Open(t.Context(), id); err == nil {
		t.Error("a removed artifact is there")
	}
}
