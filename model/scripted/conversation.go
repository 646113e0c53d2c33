package scripted

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"strings"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/model"
)

type speaker byte

const (
	bySystem speaker = iota
	byUser
	byModel
	byTool
)

// turn is one message of a conversation, reduced to what a script needs. results counts the tool results in it.
type turn struct {
	by      speaker
	text    string
	results int
}

// picked is the step to play. key names the prompt and the step for counting; id is a digest of the conversation.
type picked struct {
	step     Step
	key      string
	anchored bool
	id       uint64
}

// pick finds the anchor and the step that its script has for this point of the conversation. Where no tool may be
// called, the answer says how far the script is.
func pick(conversation []turn, sub string, noTools bool) picked {
	p := picked{step: Step{Text: "ok"}, id: digest(conversation)}
	for i := len(conversation) - 1; i >= 0; i-- {
		if conversation[i].by != byUser {
			continue
		}
		s, ok, err := findScript(conversation[i].text, sub)
		if err != nil {
			p.step, p.anchored = Step{Text: "script error: " + err.Error()}, true
			return p
		}
		if !ok {
			continue
		}
		answers, results := skipped(conversation[i].text)
		for _, t := range conversation[i+1:] {
			if t.by == byModel {
				answers++
			}
			results += t.results
		}
		p.anchored = true
		p.key = fmt.Sprintf("%s#%d", conversation[i].text, answers)
		switch {
		case noTools:
			p.step = Step{Text: fmt.Sprintf("The script is at @@skip=%d/%d@@.", answers, results)}
		case s.line != nil:
			p.step = s.line.step(results)
		case answers < len(s.steps):
			p.step = s.steps[answers]
		default:
			p.step = Step{Text: "done"}
		}
		return p
	}
	return p
}

// skipped reads how many answers and tool results of the script are not in the conversation any more: a summary that
// stands beside the script says so.
func skipped(text string) (answers, results int) {
	at := strings.LastIndex(text, "@@skip=")
	if at < 0 {
		return 0, 0
	}
	if n, err := fmt.Sscanf(text[at:], "@@skip=%d/%d@@", &answers, &results); n != 2 || err != nil || answers < 0 || results < 0 {
		return 0, 0
	}
	return answers, results
}

// digest is a number that is the same for the same conversation and, as far as 64 bits go, for no other.
func digest(conversation []turn) uint64 {
	h := fnv.New64a()
	var head [9]byte
	for _, t := range conversation {
		head[0] = byte(t.by)
		binary.LittleEndian.PutUint64(head[1:], uint64(len(t.text)))
		_, _ = h.Write(head[:]) // a hash takes everything
		_, _ = io.WriteString(h, t.text)
	}
	return h.Sum64()
}

// conversationOf reads a request. It sees what the Chat wire would carry, so that both forms of the model count and
// digest alike.
func conversationOf(req model.Request) []turn {
	list := make([]turn, 0, len(req.Messages)+1)
	if req.System != "" {
		list = append(list, turn{by: bySystem, text: req.System})
	}
	for _, m := range req.Messages {
		switch m.Role {
		case ai.RoleUser:
			list = append(list, turn{by: byUser, text: userText(m)})
		case ai.RoleAssistant:
			list = append(list, turn{by: byModel, text: m.Text()})
		case ai.RoleTool:
			for _, p := range m.Content {
				if r, ok := p.(ai.ToolResultContent); ok {
					list = append(list, turn{by: byTool, text: r.Output.Text(), results: 1})
				}
			}
		default:
			list = append(list, turn{by: bySystem, text: m.Text()})
		}
	}
	return list
}

// userText joins the texts of a message: one as it is, several with a line feed behind each.
func userText(m ai.Message) string {
	var texts []string
	for _, p := range m.Content {
		if t, ok := p.(ai.TextPart); ok {
			texts = append(texts, t.Text)
		}
	}
	if len(texts) == 1 && len(m.Content) == 1 {
		return texts[0]
	}
	var joined string
	for _, t := range texts {
		joined += t + "\n"
	}
	return joined
}
