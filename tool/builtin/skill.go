package builtin

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"

	"github.com/harness-go/harness/tool"
)

//go:embed skill.md
var skillDescription string

const skillSchema = `{
  "type": "object",
  "properties": {
    "command": {"type": "string", "maxLength": 16384, "description": "\"name args…\", or empty to list."}
  },
  "required": ["command"],
  "additionalProperties": false
}`

const (
	// maxInstructions bounds a skill's instructions with its arguments filled in, in bytes.
	maxInstructions = 96 << 10
	// maxListed and maxSkillText bound a listing: skills, and bytes of what is told of each.
	maxListed    = 100
	maxSkillText = 400
)

type skillArgs struct {
	Command string `json:"command"`
}

type skillsResult struct {
	Skills []listedSkill `json:"skills"`
	More   int           `json:"more,omitempty"`
	Note   string        `json:"note,omitempty"`
}

type listedSkill struct {
	Name         string `json:"name"`
	Description  string `json:"description"`
	ArgumentHint string `json:"argument_hint,omitempty"`
	Source       string `json:"source"`
	Unavailable  string `json:"unavailable,omitempty"`
}

type skillResult struct {
	Skill        string `json:"skill"`
	Instructions string `json:"instructions"`
}

// skillTool counts as a tool with side effects: instructions that a repository brings steer what follows, and a policy
// that asks about such calls asks about this one. Listing is readonly.
func skillTool() *tool.Tool {
	return define(tool.Definition{
		Name: "skill", Description: skillDescription, Schema: json.RawMessage(skillSchema),
		Kind: tool.KindOther, CallKind: skillKind, Tags: []string{"instructions"},
	}, runSkill)
}

func skillKind(raw json.RawMessage) tool.Kind {
	var args skillArgs
	if json.Unmarshal(raw, &args) == nil && strings.TrimSpace(args.Command) == "" {
		return tool.KindReadonly
	}
	return tool.KindOther
}

func runSkill(ctx context.Context, env tool.Env, args skillArgs) (tool.Result, error) {
	if env.Skills == nil {
		return tool.Failure(tool.CodeUnavailable, "skill is not available: this session has no skills"), nil
	}
	command := strings.TrimSpace(args.Command)
	if command == "" {
		return listSkills(ctx, env.Skills)
	}
	name, arguments := command, ""
	if i := strings.IndexAny(command, " \t\r\n"); i >= 0 {
		name, arguments = command[:i], strings.TrimSpace(command[i:])
	}
	name = strings.TrimPrefix(name, "/") // people write commands so, and models repeat it
	text, err := env.Skills.Load(ctx, name, arguments)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return tool.Result{}, context.Cause(ctx)
	case errors.Is(err, fs.ErrNotExist):
		return tool.Failure(tool.CodeNotFound, "argument command: there is no skill %s%s", quote(clip(name, 64)), skillNames(ctx, env.Skills)), nil
	default:
		return tool.Failure(tool.CodeUnavailable, "%s", err), nil
	}
	if len(text) > maxInstructions {
		return tool.Failure(tool.CodeTooLarge, "the instructions of skill %s have %d bytes with its arguments, more than %d", name, len(text), maxInstructions), nil
	}
	return tool.JSONResult(skillResult{Skill: name, Instructions: strings.ToValidUTF8(text, "\uFFFD")})
}

func listSkills(ctx context.Context, skills tool.Skills) (tool.Result, error) {
	list, err := skills.List(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return tool.Result{}, context.Cause(ctx)
		}
		return tool.Failure(tool.CodeFailed, "the skills cannot be listed: %s", err), nil
	}
	out := skillsResult{Skills: []listedSkill{}}
	for i, s := range list {
		if i == maxListed {
			out.More = len(list) - maxListed
			break
		}
		out.Skills = append(out.Skills, listedSkill{
			Name: s.Name, Description: clip(s.Description, maxSkillText), ArgumentHint: clip(s.ArgumentHint, maxSkillText/4),
			Source: s.Source, Unavailable: clip(s.Unavailable, maxSkillText),
		})
	}
	if len(list) == 0 {
		out.Note = "there are no skills here"
	}
	return tool.JSONResult(out)
}

// skillNames says which skills there are, for who named another.
func skillNames(ctx context.Context, skills tool.Skills) string {
	list, err := skills.List(ctx)
	if err != nil || len(list) == 0 {
		return ""
	}
	names := make([]string, 0, len(list))
	for _, s := range list {
		if s.Unavailable == "" {
			names = append(names, s.Name)
		}
	}
	return "; there are " + clip(strings.Join(names, ", "), 2*maxSkillText)
}
