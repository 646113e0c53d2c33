package transport_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/wire/transport"
)

func TestAListOfToolsIsEncodedOnceAndNeverTakenForAnother(t *testing.T) {
	var kept transport.Tools
	made := 0
	encode := func(tools []model.Tool) ([]byte, error) {
		made++
		return json.Marshal(tools)
	}
	list := func(schema string) []model.Tool {
		return []model.Tool{{Name: "read", Description: "reads", Schema: json.RawMessage(schema)}}
	}
	for range 3 {
		if _, err := kept.JSON(list(`{"type":"object"}`), encode); err != nil {
			t.Fatal(err)
		}
	}
	if made != 1 {
		t.Errorf("encoded %d times", made)
	}
	for i := range 200 { // more than it keeps
		schema := fmt.Sprintf(`{"type":"object","title":"%d"}`, i)
		got, err := kept.JSON(list(schema), encode)
		if err != nil || !bytes.Contains(got, []byte(fmt.Sprintf(`"title":"%d"`, i))) {
			t.Fatalf("list %d: %s, %v", i, got, err)
		}
	}
	if _, err := kept.JSON(list(`{`), func([]model.Tool) ([]byte, error) { return nil, fmt.Errorf("no") }); err == nil {
		t.Error("an error was swallowed")
	}
}

func TestAMemberIsAddedAtTheEnd(t *testing.T) {
	if got := string(transport.WithMember([]byte(`{"a":1}`), "tools", []byte(`[{}]`))); got != `{"a":1,"tools":[{}]}` {
		t.Error(got)
	}
}
