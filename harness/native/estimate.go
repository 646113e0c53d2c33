package native

import (
	"strings"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/model"
)

// Estimates, in tokens, of what no provider has counted yet. Four ASCII characters, or one other character, are taken
// for a token: about right for prose and code, high for text in other alphabets, so that an estimate errs on the safe
// side. An image costs the same whatever its size, as providers scale it.
const (
	messageTokens = 4    // around each message
	callTokens    = 8    // around a call, a result or a tool's definition
	fileTokens    = 1500 // an image, or another file that is no text
)

func textTokens(s string) int64 {
	ascii, other := int64(0), int64(0)
	for i := range len(s) {
		switch b := s[i]; {
		case b < 0x80:
			ascii++
		case b >= 0xC0: // the first byte of a longer character
			other++
		}
	}
	return (ascii+3)/4 + other
}

func fileSize(f ai.FilePart) int64 {
	if strings.HasPrefix(f.MediaType, "text/") {
		return int64(len(f.Data)+3)/4 + callTokens
	}
	return fileTokens
}

// messageSize is the estimate of a prompt, a steering message or an answer.
func messageSize(m ai.Message) int64 {
	n := int64(messageTokens)
	for _, p := range m.Content {
		switch p := p.(type) {
		case ai.TextPart:
			n += textTokens(p.Text)
		case ai.ReasoningPart:
			if p.Text == "" && p.Raw != nil {
				n += int64(len(p.Raw.JSON)+3) / 4
			}
			n += textTokens(p.Text)
		case ai.FilePart:
			n += fileSize(p)
		case ai.ToolCallPart:
			n += callTokens + textTokens(p.ToolName) + textTokens(p.Input)
		case ai.ToolResultContent:
			n += callTokens + textTokens(p.Output.Text())
		}
	}
	return n
}

// itemSize is the estimate of what an item adds to the next request.
func itemSize(it *Item) int64 {
	switch it.Kind {
	case KindPrompt, KindSteer, KindAnswer:
		if it.Message != nil {
			return messageSize(*it.Message)
		}
	case KindResult:
		n := callTokens + textTokens(it.Output)
		for _, f := range it.Files {
			n += fileSize(f)
		}
		return n
	}
	return 0
}

// prefixSize is the estimate of what each request begins with: the system prompt and the tools.
func prefixSize(system string, tools []model.Tool) int64 {
	n := messageTokens + textTokens(system)
	for _, t := range tools {
		n += callTokens + textTokens(t.Name) + textTokens(t.Description) + int64(len(t.Schema)+3)/4
	}
	return n
}
