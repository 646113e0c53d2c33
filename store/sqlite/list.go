package sqlite

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/harness-go/harness/store"
)

// filter puts a list's query together: conditions, page, order.
type filter struct {
	list  string
	limit int
	after int64 // key of the last row of the page before, 0: first page
	conds []string
	args  []any
	tail  string
}

// newFilter reads the limit and the cursor of the options.
func newFilter(list string, o store.ListOptions) (*filter, error) {
	f := &filter{list: list, limit: o.Limit}
	switch {
	case o.Limit == 0:
		f.limit = 50
	case o.Limit < 0 || o.Limit > 200:
		return nil, fmt.Errorf("list of %s: limit %d is not between 1 and 200", list, o.Limit)
	}
	if o.Cursor != "" {
		after, err := parseCursor(list, o.Cursor)
		if err != nil {
			return nil, err
		}
		f.after = after
	}
	return f, nil
}

func (f *filter) where(cond string, args ...any) {
	f.conds = append(f.conds, cond)
	f.args = append(f.args, args...)
}

// page orders by the key, newest first, and asks for one row more than the page holds, which tells of a next page.
func (f *filter) page(key string) {
	if f.after != 0 {
		f.where(key+` < ?`, f.after)
	}
	f.tail = ` ORDER BY ` + key + ` DESC LIMIT ` + strconv.Itoa(f.limit+1)
}

func (f *filter) sql() string { return ` WHERE ` + strings.Join(f.conds, ` AND `) + f.tail }

// next returns how many of the rows are on this page, and the cursor of the next one.
func (f *filter) next(keys []int64) (n int, cursor string) {
	if len(keys) <= f.limit {
		return len(keys), ""
	}
	return f.limit, formatCursor(f.list, keys[f.limit-1])
}

// A cursor is opaque to callers: the list's name and the key of the last row seen.
func formatCursor(list string, key int64) string {
	return base64.RawURLEncoding.EncodeToString([]byte(list + ":" + strconv.FormatInt(key, 10)))
}

func parseCursor(list, cursor string) (int64, error) {
	bad := func() (int64, error) {
		return 0, fmt.Errorf("list of %s: cursor %q: %w", list, clip(cursor), store.ErrBadCursor)
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return bad()
	}
	name, num, ok := strings.Cut(string(raw), ":")
	if !ok || name != list {
		return bad()
	}
	key, err := strconv.ParseInt(num, 10, 64)
	if err != nil || key <= 0 || formatCursor(list, key) != cursor {
		return bad()
	}
	return key, nil
}

// clip keeps what a stranger sent from filling an error.
func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}
