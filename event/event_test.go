package event_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/harness-go/harness/event"
)

var update = flag.Bool("update", false, "write the golden files anew")

func sortedTypes() []event.Type {
	list := event.Types()
	slices.Sort(list)
	return list
}

// sample fills every field of a payload with a value that shows its form.
func sample(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		sample(v.Elem())
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
			return
		}
		for i := range v.NumField() {
			sample(v.Field(i))
		}
	case reflect.String:
		v.SetString("text <&>")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(0.25)
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte(`{"raw":1}`))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		sample(v.Index(0))
	case reflect.Map:
		m := reflect.MakeMap(v.Type())
		key, val := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		sample(key)
		sample(val)
		m.SetMapIndex(key, val)
		v.Set(m)
	}
}

func TestTheJSONOfEveryEventIsGolden(t *testing.T) {
	var b strings.Builder
	for i, typ := range sortedTypes() {
		p, err := event.Decode(typ, []byte(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		sample(reflect.ValueOf(p).Elem())
		raw, err := event.Encode("conv", event.Fact{Step: 2, Payload: p})
		if err != nil {
			t.Fatal(err)
		}
		e := event.Event{RunID: "run_1", Seq: int64(i + 1), Type: typ, Timestamp: time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC), Payload: raw}
		line, err := json.Marshal(e)
		if err != nil || !json.Valid(line) {
			t.Fatalf("%s: %v %s", typ, err, line)
		}
		b.Write(e.AppendJSON(nil))
		b.WriteByte('\n')

		var back event.Event
		if err := json.Unmarshal(line, &back); err != nil || back.Seq != e.Seq || back.Type != typ {
			t.Errorf("%s does not read back: %v", typ, err)
		}
		q, err := event.Decode(typ, back.Payload)
		if err != nil || !reflect.DeepEqual(p, q) {
			t.Errorf("%s: payload does not read back: %v\n%+v\n%+v", typ, err, p, q)
		}
	}
	path := filepath.Join("testdata", "events.golden.jsonl")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("the events' JSON changed; if that is meant, run go test ./event -update\n%s", b.String())
	}
}

// Every kind is emitted by code that is not a test: a declared event that never comes would be a promise not kept.
func TestEveryEventIsEmittedSomewhere(t *testing.T) {
	var code strings.Builder
	err := filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, filepath.Join("..", "event")) {
			return err
		}
		b, err := os.ReadFile(path)
		code.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range sortedTypes() {
		p, _ := event.Decode(typ, []byte(`{}`))
		name := reflect.TypeOf(p).Elem().Name()
		if !strings.Contains(code.String(), "event."+name+"{") {
			t.Errorf("%s: nothing makes an event.%s", typ, name)
		}
	}
}

func TestAnUnknownEventIsNotTakenForAnother(t *testing.T) {
	if _, err := event.Decode("run.imagined", []byte(`{}`)); err == nil {
		t.Error("decoded an unknown type")
	}
}

func TestCursors(t *testing.T) {
	for _, c := range []struct {
		in   string
		want int64
		ok   bool
	}{
		{"", 0, true}, {"0", 0, true}, {"51", 51, true}, {"run_a:7", 7, true},
		{"run_b:7", 0, false}, {"x", 0, false}, {"-1", 0, false}, {"+1", 0, false}, {"1.5", 0, false}, {"run_a:", 0, false}, {" 1", 0, false},
		{"99999999999999999999", 0, false},
	} {
		got, err := event.ParseCursor("run_a", c.in)
		if got != c.want || (err == nil) != c.ok {
			t.Errorf("ParseCursor(%q) = %d, %v", c.in, got, err)
		}
	}
}

func FuzzParseCursor(f *testing.F) {
	f.Add("run_a:1")
	f.Add("12")
	f.Fuzz(func(t *testing.T, s string) {
		n, err := event.ParseCursor("run_a", s)
		if err == nil && n < 0 {
			t.Fatal(n)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, typ := range sortedTypes() {
		f.Add(string(typ), []byte(`{"call_id":"c"}`))
	}
	f.Fuzz(func(t *testing.T, typ string, data []byte) {
		p, err := event.Decode(event.Type(typ), data)
		if err != nil {
			return
		}
		raw, err := event.Encode("c", event.Fact{Payload: p})
		if err != nil || !json.Valid(raw) {
			t.Fatalf("%v %s", err, raw)
		}
	})
}

func BenchmarkAppendJSON(b *testing.B) {
	raw, _ := event.Encode("conv", event.Fact{Step: 1, Payload: event.AssistantMessageDeltaPayload{Content: "word "}})
	e := event.Event{RunID: "run_6f1c", Seq: 12, Type: event.AssistantMessageDelta, Timestamp: time.Now(), Payload: raw}
	buf := make([]byte, 0, 512)
	b.ReportAllocs()
	for b.Loop() {
		buf = e.AppendJSON(buf[:0])
	}
	_ = fmt.Sprint(len(buf))
}
