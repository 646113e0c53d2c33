package scripted_test

import (
	"context"
	"fmt"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/scripted"
)

// A script in the prompt says what the model answers, step by step.
func Example() {
	m, err := scripted.New(scripted.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	req := model.Request{Model: "any", Messages: []ai.Message{
		ai.UserMessage(`Look around. @@[{"tool":"bash","in":{"command":"ls"}}, {"text":"I see."}]@@`),
	}}
	for part, err := range m.Stream(context.Background(), req) {
		if err != nil {
			fmt.Println(err)
			return
		}
		switch part.Kind {
		case model.PartContent:
			if call, ok := part.Content.(ai.ToolCallPart); ok {
				fmt.Println("call:", call.ToolName, call.Input)
			}
		case model.PartFinish:
			fmt.Println("finish:", part.Finish.Unified)
		}
	}
	// Output:
	// call: bash {"command":"ls"}
	// finish: tool-calls
}
