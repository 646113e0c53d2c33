package native

import (
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/tool"
)

// defaultSystemPrompt is short on purpose: the tools' own descriptions say how to use them.
const defaultSystemPrompt = `You are a coding agent working in a user's folder through tools.
Look before you change: read the files and run the checks that tell you what is true. Make the smallest change that does what was asked, then run what proves it. Say plainly what you did, what you saw, and what you could not do.
A tool result with an "error" tells you why a call was refused or failed; do not repeat the same call, mend it or go another way. A call that needs a person's approval waits for it; a denied one was not made.`

func (t *turn) systemPrompt() string {
	p := t.s.h.set.SystemPrompt
	if p == "" {
		p = defaultSystemPrompt
	}
	if t.s.opts.SessionWorkDir != "" {
		p += "\n\nYour working directory is " + t.s.opts.SessionWorkDir + "."
	}
	p += instructionText(t.s.instructions)
	if t.o.Instructions != "" {
		p += "\n\n" + t.o.Instructions
	}
	for _, s := range t.o.Skills {
		p += "\n\n# Skill " + s.Name + ": " + s.Description + "\n" + s.Content
	}
	return p
}

// tools lists what the model sees: the host's tools, then core and activated tools that are visible.
func (t *turn) tools() []model.Tool {
	var out []model.Tool
	for _, h := range t.o.Tools {
		out = append(out, model.Tool{Name: h.Name, Description: h.Description, Schema: h.InputSchema})
	}
	for _, tl := range t.s.h.tools.All() {
		d := tl.Definition()
		if t.isHostTool(d.Name) || !t.s.visible(d.Name) || (d.Tier == tool.TierDeferred && !t.s.isActive(d.Name)) {
			continue
		}
		out = append(out, model.Tool{Name: d.Name, Description: d.Description, Schema: d.Schema})
	}
	return out
}

func (t *turn) toolNames() []string {
	var names []string
	for _, m := range t.tools() {
		names = append(names, m.Name)
	}
	return names
}
