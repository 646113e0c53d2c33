package tape

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// digest names what makes requests equal.
func digest(path string, body []byte) string {
	h := sha256.New()
	_, _ = io.WriteString(h, path+"\n") // a hash takes everything
	_, _ = h.Write(canonical(body))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// ignored are the members of a body that do not count: those that name who asks, which each run has its own of, and what
// a client wants to be told beside the answer, which goes by what it learned of the service before.
var ignored = []string{"prompt_cache_key", "metadata", "user", "safety_identifier", "include"}

// madeID is a call's id that a client made because the server gave none: a random one.
var madeID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`"call_[A-Z2-7]{26}"`) })

// canonical is a body without what does not count. What is not JSON counts as it is.
func canonical(body []byte) []byte {
	v, ok := decode(body)
	if !ok {
		return body
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return body
	}
	made := map[string]string{}
	return madeID().ReplaceAllFunc(b.Bytes(), func(id []byte) []byte {
		s := string(id)
		if made[s] == "" {
			made[s] = fmt.Sprintf(`"call_#%d"`, len(made)+1)
		}
		return []byte(made[s])
	})
}

// decode reads a JSON body, its numbers as they are written, without the members that do not count.
func decode(body []byte) (any, bool) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return nil, false
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, false
	}
	if m, ok := v.(map[string]any); ok {
		for _, k := range ignored {
			delete(m, k)
		}
	}
	return v, true
}

// harmless are the query values that are written. Any other may be a key.
var harmless = []string{"alt", "api-version", "version", "beta"}

func cleanQuery(q url.Values) string {
	out := url.Values{}
	for k, v := range q {
		if !slices.Contains(harmless, k) {
			v = []string{"redacted"}
		}
		out[k] = v
	}
	return out.Encode()
}

// minKey is the shortest text that is taken for a key: blotting out a shorter one would spoil the body.
const minKey = 8

// keys are the credentials of a request, which no file may hold.
func keys(r *http.Request) (out []string) {
	add := func(values []string) {
		for _, v := range values {
			_, credential, _ := strings.Cut(v, " ")
			for _, s := range []string{v, credential} {
				if s = strings.TrimSpace(s); len(s) >= minKey {
					out = append(out, s)
				}
			}
		}
	}
	for name, values := range r.Header {
		if isCredential(name) {
			add(values)
		}
	}
	for name, values := range r.URL.Query() {
		if !slices.Contains(harmless, name) {
			add(values)
		}
	}
	// The longest first: one may hold another.
	slices.SortFunc(out, func(a, b string) int { return len(b) - len(a) })
	return out
}

func isCredential(header string) bool {
	switch header {
	case "Authorization", "Proxy-Authorization", "Cookie":
		return true
	}
	for _, end := range []string{"-Key", "-Token", "-Secret"} {
		if strings.HasSuffix(header, end) {
			return true
		}
	}
	return false
}

const blot = "[redacted]"

func blotOut(b []byte, keys []string) []byte {
	for _, k := range keys {
		b = bytes.ReplaceAll(b, []byte(k), []byte(blot))
	}
	return b
}
