// Package apikey makes and checks API keys.
//
// A key is "harness_sk_" and 32 random bytes in base62. It is shown once, when it is made; kept is its SHA-256 (so much
// entropy needs no slow hash), by which it is found again. The package owns the form of keys and the verdict on them;
// it keeps nothing, and knows neither HTTP nor what a scope permits. A key never occurs in its errors.
package apikey

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/store"
)

// Prefix begins every key, so that scanners for leaked secrets know it.
const Prefix = "harness_sk_"

const (
	alphabet  = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	secretLen = 43 // 62^43 > 2^256
	shownLen  = 8  // 48 of 256 bits: enough to tell keys apart in lists and logs
)

// Scopes lists the scopes that a key can have.
func Scopes() []string {
	return []string{
		engine.ScopeRunsRead, engine.ScopeRunsWrite, engine.ScopeRunsUnrestricted, engine.ScopeApprovals, engine.ScopeMetrics, engine.ScopeAdmin,
	}
}

// The reasons why a key is refused.
var (
	ErrMalformed = errors.New("not an API key: keys begin with " + Prefix)
	ErrUnknown   = errors.New("API key is not known here")
	ErrExpired   = errors.New("API key has expired")
	ErrRevoked   = errors.New("API key was revoked")
)

// MaxName bounds the name of a key, in bytes.
const MaxName = 100

// New makes a key for a tenant (empty: the default tenant). ttl 0 means that it does not expire. The first result is
// the key itself, which cannot be had again; the second is what to store.
func New(tenant, name string, scopes []string, ttl time.Duration) (string, store.Key, error) {
	if tenant == "" {
		tenant = engine.DefaultTenant
	}
	switch {
	case name == "" || len(name) > MaxName || !printable(name):
		return "", store.Key{}, fmt.Errorf("api key: name must have 1 to %d bytes of printable text", MaxName)
	case len(tenant) > MaxName || !printable(tenant):
		return "", store.Key{}, fmt.Errorf("api key: tenant must have 1 to %d bytes of printable text", MaxName)
	case ttl < 0:
		return "", store.Key{}, errors.New("api key: time to live must not be negative")
	case len(scopes) == 0:
		return "", store.Key{}, fmt.Errorf("api key: scopes: name at least one of %s", strings.Join(Scopes(), ", "))
	}
	for _, s := range scopes {
		if !slices.Contains(Scopes(), s) {
			return "", store.Key{}, fmt.Errorf("api key: scope %q is not one of %s", s, strings.Join(Scopes(), ", "))
		}
	}
	scopes = slices.Clone(scopes)
	slices.Sort(scopes)

	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	plain := Prefix + encode(secret[:])
	now := time.Now().UTC()
	k := store.Key{
		ID:        "key_" + strings.ToLower(rand.Text()[:16]),
		Prefix:    plain[:len(Prefix)+shownLen],
		Hash:      sha256.Sum256([]byte(plain)),
		TenantID:  tenant,
		Name:      name,
		Scopes:    slices.Compact(scopes),
		CreatedAt: now,
	}
	if ttl > 0 {
		t := now.Add(ttl)
		k.ExpiresAt = &t
	}
	return plain, k, nil
}

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f })
}

func encode(b []byte) string {
	out := make([]byte, secretLen)
	n, base, digit := new(big.Int).SetBytes(b), big.NewInt(int64(len(alphabet))), new(big.Int)
	for i := secretLen - 1; i >= 0; i-- {
		n.DivMod(n, base, digit)
		out[i] = alphabet[digit.Int64()]
	}
	return string(out)
}

// Parse checks the form of a key and returns the hash to look it up by.
func Parse(key string) ([32]byte, error) {
	secret, ok := strings.CutPrefix(key, Prefix)
	if !ok || len(secret) != secretLen {
		return [32]byte{}, ErrMalformed
	}
	for i := range len(secret) {
		c := secret[i]
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return [32]byte{}, ErrMalformed
		}
	}
	return sha256.Sum256([]byte(key)), nil
}

// Lookup finds a stored key by its hash; store.Store has it. A key that does not exist is store.ErrNotFound.
type Lookup interface {
	KeyByHash(ctx context.Context, hash [32]byte) (store.Key, error)
}

// Find looks a key up and judges it.
func Find(ctx context.Context, keys Lookup, hash [32]byte, now time.Time) (store.Key, error) {
	k, err := keys.KeyByHash(ctx, hash)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return store.Key{}, ErrUnknown
	case err != nil:
		return store.Key{}, fmt.Errorf("api key: look up: %w", err)
	case subtle.ConstantTimeCompare(k.Hash[:], hash[:]) != 1:
		return store.Key{}, ErrUnknown // an index that finds by less than the whole hash must not let a key in
	}
	return k, Valid(k, now)
}

// Valid judges a stored key at a time: ErrRevoked, ErrExpired or nil.
func Valid(k store.Key, now time.Time) error {
	switch {
	case k.RevokedAt != nil:
		return ErrRevoked
	case k.ExpiresAt != nil && !now.Before(*k.ExpiresAt):
		return ErrExpired
	}
	return nil
}

// Principal is who the key's bearer is.
func Principal(k store.Key) engine.Principal {
	return engine.Principal{KeyID: k.ID, Name: k.Name, TenantID: k.TenantID, Scopes: k.Scopes}
}
