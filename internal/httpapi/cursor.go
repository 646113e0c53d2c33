package httpapi

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"

	"github.com/harness-go/harness/internal/api"
)

const maxCursor = 1024

// sealCursor makes the cursor that a client gets from the store's own. list names the list with its filters: a
// garbled cursor, or one of another list, must be refused and not read as some other place. The sum protects against
// mistakes only; the engine checks tenants again.
func sealCursor(list, next string) string {
	if next == "" {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(append(cursorSum(list, next), next...))
}

func openCursor(list, cursor string) (string, *api.Problem) {
	if cursor == "" {
		return "", nil
	}
	if len(cursor) <= maxCursor {
		b, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
		if err == nil && len(b) > 4 && string(cursorSum(list, string(b[4:]))) == string(b[:4]) {
			return string(b[4:]), nil
		}
	}
	return "", api.NewProblem(api.CodeInvalidCursor, "cursor: not a next_cursor of this list with these filters; leave it out to start from the newest").At("cursor")
}

func cursorSum(list, next string) []byte {
	h := crc32.NewIEEE()
	_, _ = h.Write([]byte(list + "\x00" + next))
	return binary.BigEndian.AppendUint32(nil, h.Sum32())
}
