package model

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
)

const redacted = "[redacted]"

// Secret holds a key that must reach one endpoint and nothing else. Every way of printing or encoding it writes
// "[redacted]"; only Reveal gives the value. The zero value is no secret. The value sits behind a function so that a
// reflecting printer that meets the Secret in an unexported field finds an address and not the key.
type Secret struct{ reveal func() string }

// NewSecret wraps a value. The empty string gives the zero Secret.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{reveal: func() string { return value }}
}

// SecretFunc wraps a source that is asked at each use, for keys that rotate. It must be safe for concurrent use.
func SecretFunc(source func() string) Secret { return Secret{reveal: source} }

// Reveal returns the value, "" for the zero Secret.
func (s Secret) Reveal() string {
	if s.reveal == nil {
		return ""
	}
	return s.reveal()
}

// IsZero reports whether no secret was set. It does not ask the source of a SecretFunc.
func (s Secret) IsZero() bool { return s.reveal == nil }

func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return redacted
}

// GoString keeps %#v from printing the value.
func (s Secret) GoString() string { return "model.Secret(" + s.String() + ")" }

// Format answers every verb, so that %x, %q and %d cannot reach the value either.
func (s Secret) Format(f fmt.State, verb rune) {
	if verb == 'v' && f.Flag('#') {
		_, _ = io.WriteString(f, s.GoString())
		return
	}
	_, _ = io.WriteString(f, s.String())
}

// LogValue keeps slog from printing the value.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText writes the placeholder. JSON uses it too.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText takes the value from a configuration file. The placeholder is refused: a file that was written from
// a printed configuration holds no key.
func (s *Secret) UnmarshalText(text []byte) error {
	if string(text) == redacted {
		return errors.New(`model: the key is the placeholder "` + redacted + `", not a key`)
	}
	*s = NewSecret(string(text))
	return nil
}
