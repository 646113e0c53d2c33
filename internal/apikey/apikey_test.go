package apikey

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/store"
)

type memory map[[32]byte]store.Key

func (m memory) KeyByHash(_ context.Context, h [32]byte) (store.Key, error) {
	k, ok := m[h]
	if !ok {
		return store.Key{}, store.ErrNotFound
	}
	return k, nil
}

func TestAMadeKeyIsFoundAgainAndNeverStoredItself(t *testing.T) {
	plain, k, err := New("", "ci", []string{engine.ScopeRunsWrite, engine.ScopeRunsRead, engine.ScopeRunsWrite}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if k.Hash != sha256.Sum256([]byte(plain)) || k.TenantID != engine.DefaultTenant || len(k.Scopes) != 2 {
		t.Fatalf("key = %+v", k)
	}
	if !strings.HasPrefix(plain, k.Prefix) || len(k.Prefix) != len(Prefix)+shownLen {
		t.Fatalf("prefix %q does not show the key's own first characters", k.Prefix)
	}
	hash, err := Parse(plain)
	if err != nil {
		t.Fatal(err)
	}
	keys := memory{k.Hash: k}
	got, err := Find(t.Context(), keys, hash, time.Now())
	if err != nil || got.ID != k.ID {
		t.Fatalf("Find = %v, %v", got.ID, err)
	}
	if p := Principal(got); !p.Can(engine.ScopeRunsRead) || p.Can(engine.ScopeAdmin) || p.KeyID != k.ID {
		t.Fatalf("principal = %+v", p)
	}
}

func TestTwoKeysShowTwoPrefixes(t *testing.T) {
	seen := map[string]bool{}
	for range 200 {
		_, k, err := New("t", "n", []string{engine.ScopeAdmin}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if seen[k.Prefix] || seen[k.ID] {
			t.Fatalf("prefix %q or id %q came twice", k.Prefix, k.ID)
		}
		seen[k.Prefix], seen[k.ID] = true, true
	}
}

func TestExpiredRevokedUnknownAndMalformedKeysAreRefused(t *testing.T) {
	now := time.Now()
	plain, k, err := New("t", "n", []string{engine.ScopeRunsRead}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	revoked := k
	revoked.RevokedAt = &now
	other := k
	other.Hash = [32]byte{1}
	for name, c := range map[string]struct {
		keys memory
		now  time.Time
		want error
	}{
		"valid":                            {memory{k.Hash: k}, now, nil},
		"expired at its last instant":      {memory{k.Hash: k}, *k.ExpiresAt, ErrExpired},
		"revoked":                          {memory{k.Hash: revoked}, now, ErrRevoked},
		"unknown":                          {memory{}, now, ErrUnknown},
		"found under another key's hash":   {memory{k.Hash: other}, now, ErrUnknown},
		"revoked and expired says revoked": {memory{k.Hash: revoked}, now.Add(time.Hour), ErrRevoked},
	} {
		if _, err := Find(t.Context(), c.keys, k.Hash, c.now); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	for _, bad := range []string{"", Prefix, plain + "x", plain[:len(plain)-1], "sk-" + plain, plain[:len(plain)-1] + "-", strings.ToUpper(plain)} {
		if _, err := Parse(bad); !errors.Is(err, ErrMalformed) || strings.Contains(err.Error(), plain[len(Prefix):]) {
			t.Errorf("Parse(%q) = %v", bad, err)
		}
	}
}

func TestNewRefusesWhatItCannotKeep(t *testing.T) {
	ok := []string{engine.ScopeRunsRead}
	for name, f := range map[string]func() error{
		"no name":       func() error { _, _, err := New("t", "", ok, 0); return err },
		"long name":     func() error { _, _, err := New("t", strings.Repeat("n", 101), ok, 0); return err },
		"line feed":     func() error { _, _, err := New("t", "a\nb", ok, 0); return err },
		"no scope":      func() error { _, _, err := New("t", "n", nil, 0); return err },
		"unknown scope": func() error { _, _, err := New("t", "n", []string{"runs:*"}, 0); return err },
		"negative ttl":  func() error { _, _, err := New("t", "n", ok, -1); return err },
		"bad tenant":    func() error { _, _, err := New("\x00", "n", ok, 0); return err },
	} {
		if f() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func FuzzParseTakesOnlyTheOneForm(f *testing.F) {
	plain, _, _ := New("t", "n", []string{engine.ScopeRunsRead}, 0)
	f.Add(plain)
	f.Add(Prefix)
	f.Fuzz(func(t *testing.T, s string) {
		h, err := Parse(s)
		if err != nil {
			return
		}
		if len(s) != len(Prefix)+secretLen || h != sha256.Sum256([]byte(s)) {
			t.Fatalf("Parse took %q", s)
		}
	})
}
