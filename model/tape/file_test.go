package tape

import (
	"bytes"
	"encoding/json"
	"net/url"
	"testing"
)

// FuzzFile holds that no content breaks the reader, and that what it accepts is written and read again the same.
func FuzzFile(f *testing.F) {
	f.Add([]byte(`{"tape":1,"method":"POST","path":"/v1","request":{"a":[1,"call_ABCDEFGHIJKLMNOPQRSTUVWXYZ"]},"status":200,"headers":{"Content-Type":"x"},"body":"data: ä\n\n","cut":true}`))
	f.Add([]byte(`{"tape":1,"method":"POST","path":"/v1","requestBytes":"/w==","status":0,"bodyBytes":"AA=="}`))
	f.Add([]byte(`{"tape":1,"path":"/","request":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := parse(data)
		if err != nil {
			return
		}
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(x); err != nil {
			t.Fatal(err)
		}
		y, err := parse(b.Bytes())
		if err != nil {
			t.Fatalf("%v\n%s", err, b.Bytes())
		}
		if x.digest() != y.digest() || !bytes.Equal(x.body(), y.body()) || x.Status != y.Status || x.Cut != y.Cut || len(x.Headers) != len(y.Headers) {
			t.Errorf("read %+v\nwritten %+v", x, y)
		}
	})
}

// FuzzRequest holds that a request has the same digest however its JSON is written, and after a file.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"b":1.0,"a":["call_ABCDEFGHIJKLMNOPQRSTUVWXYZ","<"],"user":"x"}`))
	f.Add([]byte("{\"a\":\"\xff\"}"))
	f.Add([]byte(`{"a":1,"a":2}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		want := digest("/p", body)
		x := exchange{Version: version, Path: "/p"}
		x.setRequest(body)
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(x); err != nil {
			t.Fatal(err)
		}
		y, err := parse(b.Bytes())
		if err != nil {
			t.Fatalf("%v\n%s", err, b.Bytes())
		}
		if y.digest() != want {
			t.Errorf("digest %s, want %s of %q", y.digest(), want, y.request())
		}
		var indented bytes.Buffer
		if json.Indent(&indented, body, "", " ") == nil && digest("/p", indented.Bytes()) != want {
			t.Errorf("indented %s", indented.Bytes())
		}
	})
}

func TestTheFirstDifference(t *testing.T) {
	for _, c := range []struct{ want, have, at string }{
		{`{"a":[1,{"b":"xay"}]}`, `{"a":[1,{"b":"xby"}]}`, "a[1].b (from byte 1 of its text)"},
		{`{"a":1}`, `{"b":1}`, "a (not in the recorded request)"},
		{`{"b":1}`, `{"a":1,"b":1}`, "a (only in the recorded request)"},
		{`{"a":[1]}`, `{"a":[1,2]}`, "a[1] (1 elements, recorded are 2)"},
		{`{"a":1.0}`, `{"a":1}`, "a (another value)"},
		{`{"a":null}`, `{"a":{}}`, "a (another value)"},
		{`{"a":{}}`, `{"a":null}`, "a (another type)"},
		{`[]`, `{}`, "the body (another type)"},
		{`1`, `2`, "the body (another value)"},
		{`{"a":[],"user":"x"}`, `{"a":[],"user":"y"}`, ""},
	} {
		want, _ := decode([]byte(c.want))
		have, _ := decode([]byte(c.have))
		var got comparison
		got.compare("", want, have)
		if got.first != c.at {
			t.Errorf("%s and %s differ at %q, want %q", c.want, c.have, got.first, c.at)
		}
	}
}

func TestQueriesAreWrittenWithoutKeys(t *testing.T) {
	q, err := url.ParseQuery("key=sk-1&alt=sse&sig=x&api-version=2024")
	if err != nil {
		t.Fatal(err)
	}
	if got := cleanQuery(q); got != "alt=sse&api-version=2024&key=redacted&sig=redacted" {
		t.Error(got)
	}
}
