package tape

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

const version = 1

// exchange is one request and its answer, as it stands in a file. Bodies that are no UTF-8 are in the second member.
type exchange struct {
	Version      int               `json:"tape"`
	Method       string            `json:"method"`
	Path         string            `json:"path"`
	Query        string            `json:"query,omitempty"`
	Request      json.RawMessage   `json:"request,omitempty"` // a body that is JSON
	RequestBytes []byte            `json:"requestBytes,omitempty"`
	Status       int               `json:"status"` // 0: the connection failed before an answer
	Headers      map[string]string `json:"headers,omitempty"`
	Body         string            `json:"body,omitempty"`
	BodyBytes    []byte            `json:"bodyBytes,omitempty"`
	Cut          bool              `json:"cut,omitempty"` // the answer broke off behind its body
}

// kept are the headers of an answer that its reader looks at.
var kept = []string{
	"Content-Type", "Retry-After", "Retry-After-Ms", "X-Request-Id", "Request-Id", "X-Amzn-Requestid", "Cf-Ray", location,
}

// location is written without its host, and only where that is the one that was asked.
const location = "Location"

func (x *exchange) request() []byte {
	if x.Request != nil {
		return x.Request
	}
	return x.RequestBytes
}

func (x *exchange) body() []byte {
	if x.BodyBytes != nil {
		return x.BodyBytes
	}
	return []byte(x.Body)
}

func (x *exchange) setRequest(b []byte) {
	if json.Valid(b) && utf8.Valid(b) {
		x.Request = b
		return
	}
	x.RequestBytes = b
}

func (x *exchange) setBody(b []byte) {
	if utf8.Valid(b) {
		x.Body = string(b)
		return
	}
	x.BodyBytes = b
}

func (x *exchange) digest() string { return digest(x.Path, x.request()) }

// parse reads a file's content. It accepts what a Tape writes and nothing else.
func parse(data []byte) (*exchange, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("it is larger than %d bytes", maxFile)
	}
	var x exchange
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&x); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	switch {
	case x.Version != version:
		return nil, fmt.Errorf("tape is %d; this program reads %d", x.Version, version)
	case !strings.HasPrefix(x.Path, "/"):
		return nil, errors.New("path does not begin with a slash")
	case x.Status != 0 && (x.Status < 200 || x.Status > 599):
		return nil, fmt.Errorf("status %d is not one of an answer", x.Status)
	case x.Request != nil && x.RequestBytes != nil:
		return nil, errors.New("both request and requestBytes are set")
	case x.Body != "" && x.BodyBytes != nil:
		return nil, errors.New("both body and bodyBytes are set")
	}
	for k, v := range x.Headers {
		if strings.ContainsAny(v, "\r\n\x00") || !isKept(k) {
			return nil, fmt.Errorf("header %q is not one that is recorded", k)
		}
	}
	return &x, nil
}

func isKept(name string) bool {
	return slices.Contains(kept, name)
}

// load reads a recording and checks that it answers the request that its name says.
func (t *Tape) load(name string) (*exchange, error) {
	f, err := os.Open(filepath.Join(t.dir, name))
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, err
	}
	x, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("recording %s: %w", name, err)
	}
	if m := fileName().FindStringSubmatch(name); m == nil || m[2] != x.digest() {
		return nil, fmt.Errorf("recording %s: its request was changed; name it %s", name, x.digest())
	}
	return x, nil
}

// save writes a recording under its number, or under the next free one where another process took that.
func (t *Tape) save(temp *os.File, number int, x *exchange) (err error) {
	defer func() {
		_ = temp.Close() // closed before, unless something failed
		_ = os.Remove(temp.Name())
	}()
	enc := json.NewEncoder(temp)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(x); err != nil {
		return err
	}
	if err := temp.Sync(); err != nil {
		return err
	}
	if err := temp.Close(); err != nil {
		return err
	}
	sum := x.digest()
	for range maxFiles {
		name := filepath.Join(t.dir, fmt.Sprintf("%06d-%s.json", number, sum))
		// A link does not replace a file that is there, as renaming would. Not every file system has links.
		if err = os.Link(temp.Name(), name); err == nil {
			return nil
		}
		if _, lerr := os.Lstat(name); errors.Is(lerr, fs.ErrNotExist) {
			return os.Rename(temp.Name(), name)
		}
		number = t.number()
	}
	return err
}

// number takes the number of a recording.
func (t *Tape) number() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.next
	t.next++
	return n
}

func keptHeaders(asked *url.URL, h http.Header, secrets []string) map[string]string {
	out := map[string]string{}
	for _, k := range kept {
		v := h.Get(k)
		if k == location && v != "" {
			v = sameHost(asked, v)
		}
		if v != "" {
			out[k] = string(blotOut([]byte(v), secrets))
		}
	}
	return out
}

func sameHost(asked *url.URL, to string) string {
	u, err := asked.Parse(to)
	if err != nil || u.Scheme != asked.Scheme || u.Host != asked.Host {
		return ""
	}
	return (&url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: cleanQuery(u.Query())}).String()
}
