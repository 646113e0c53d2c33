package apikey_test

import (
	"testing"
	"time"

	"github.com/harness-go/harness/internal/apikey"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/store/sqlite"
)

// BenchmarkCheckAmongAThousandKeys is a whole check of a key, without a cache.
func BenchmarkCheckAmongAThousandKeys(b *testing.B) {
	s, err := sqlite.Open(b.Context(), sqlite.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var plain string
	for range 1000 {
		secret, k, err := apikey.New("default", "n", []string{engine.ScopeRunsRead}, 0)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.PutKey(b.Context(), k); err != nil {
			b.Fatal(err)
		}
		plain = secret
	}
	for b.Loop() {
		hash, err := apikey.Parse(plain)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := apikey.Find(b.Context(), s, hash, time.Now()); err != nil {
			b.Fatal(err)
		}
	}
}
