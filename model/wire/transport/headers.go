package transport

import (
	"fmt"
	"net/textproto"
	"strings"
)

// managed are the headers that the client or the HTTP layer sets. Nobody else may: a second credential or a forged
// length would change where a call goes or what it means.
var managed = map[string]bool{
	"Accept": true, "Accept-Encoding": true, "Api-Key": true, "Authorization": true, "Connection": true,
	"Content-Length": true, "Content-Type": true, "Cookie": true, "Host": true, "Proxy-Authorization": true,
	"Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true, "X-Api-Key": true, "X-Goog-Api-Key": true,
}

func checkHeaders(headers map[string]string, keyHeader string) error {
	for k, v := range headers {
		name := textproto.CanonicalMIMEHeaderKey(k)
		switch {
		case !isToken(k):
			return fmt.Errorf("header %q is not a header name", k)
		case managed[name] || name == textproto.CanonicalMIMEHeaderKey(keyHeader):
			return fmt.Errorf("header %s is managed and cannot be set", name)
		case !isHeaderValue(v):
			return fmt.Errorf("the value of header %s holds a control character", name)
		}
	}
	return nil
}

func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte("()<>@,;:\\\"/[]?={}", c) >= 0 {
			return false
		}
	}
	return s != ""
}

func isHeaderValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < ' ' && c != '\t') || c == 0x7f {
			return false
		}
	}
	return true
}
