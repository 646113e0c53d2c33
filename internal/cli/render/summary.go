package render

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/harness-go/harness/event"
)

// maxCall bounds the summary of a call's arguments, in characters.
const maxCall = 100

// Call names a tool call in one line: the tool and what it is about.
func Call(tool, arguments string) string {
	name := Line(tool, 60)
	var args map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &args) != nil {
		return strings.TrimSpace(name + " " + Line(arguments, maxCall))
	}
	for _, key := range []string{"command", "pattern", "path", "file_path", "query", "url", "shell_id", "action"} {
		var s string
		if json.Unmarshal(args[key], &s) == nil && s != "" {
			text := Line(s, maxCall)
			if key == "pattern" {
				var path string
				if json.Unmarshal(args["path"], &path) == nil && path != "" {
					text += " in " + Line(path, 60)
				}
			}
			return name + " " + text
		}
	}
	if len(args) == 0 {
		return name
	}
	return name + " " + Line(arguments, maxCall)
}

// outcome tells how a call ended in a few words: the exit code of a command, the code of a failure.
func outcome(p *event.ToolCallCompletedPayload) (text string, bad bool) {
	var out struct {
		ExitCode *int   `json:"exit_code"`
		TimedOut bool   `json:"timed_out"`
		Signal   string `json:"signal"`
		Error    struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	// The output can be anything; what is not such an object adds nothing.
	_ = json.Unmarshal([]byte(p.Output), &out)
	switch {
	case p.Interrupted:
		return "interrupted: outcome unknown", true
	case out.TimedOut:
		return "timed out", true
	case out.Signal != "":
		return "killed by " + Line(out.Signal, 20), true
	case out.ExitCode != nil:
		return fmt.Sprintf("exit %d", *out.ExitCode), *out.ExitCode != 0
	case p.Error != "":
		text = Line(p.Error, 40)
		if out.Error.Message != "" {
			text += ": " + Line(out.Error.Message, 200)
		}
		return text, true
	}
	return "", false
}

// maxDiff bounds the lines of a diff that are shown.
const maxDiff = 24

// Diff shows the changed lines of a unified diff, at most maxDiff of them.
func Diff(diff string, s Style) (added, removed int, lines []string) {
	for line := range strings.SplitSeq(strings.TrimSuffix(diff, "\n"), "\n") {
		switch {
		case strings.HasPrefix(line, "+++ "), strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "diff "):
			continue
		case strings.HasPrefix(line, "@@"):
			lines = append(lines, s.Blue(Line(line, 120)))
		case strings.HasPrefix(line, "+"):
			added++
			lines = append(lines, s.Green(clip(line)))
		case strings.HasPrefix(line, "-"):
			removed++
			lines = append(lines, s.Red(clip(line)))
		}
	}
	if len(lines) > maxDiff {
		more := len(lines) - maxDiff
		lines = append(slices.Clip(lines[:maxDiff]), s.Dim(fmt.Sprintf("… %d more lines", more)))
	}
	return added, removed, lines
}

// clip keeps a line of code as it is, tabs included, within a bound.
func clip(line string) string {
	line = Text(line)
	if r := []rune(line); len(r) > 160 {
		return string(r[:159]) + "…"
	}
	return line
}
