package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/harness-go/harness/event"
)

// Approval shows a pending or answered approval as a card. The arguments are whole: a person decides on them.
func Approval(w io.Writer, a event.Approval, now time.Time, s Style) {
	bar := s.Yellow("│")
	kind := ""
	if a.Kind != "" {
		kind = " (" + Line(a.Kind, 40) + ")"
	}
	fmt.Fprintf(w, "%s %s\n", s.Yellow("┌"), s.Bold("approval "+Line(a.ID, 80)))
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s %-9s %s\n", bar, name, value)
		}
	}
	row("tool", s.Bold(Exact(a.Tool))+kind)
	row("status", statusWord(a))
	row("arguments", "")
	fmt.Fprintf(w, "%s arguments\n", bar)
	for line := range strings.SplitSeq(Arguments(a.Arguments), "\n") {
		fmt.Fprintf(w, "%s   %s\n", bar, line)
	}
	row("cwd", strings.ReplaceAll(Exact(a.Cwd), "\n", `\n`))
	row("why", Line(a.Why, 2000))
	row("run", Line(a.RunID, 80))
	row("asked", askedBy(a))
	row("digest", Line(a.Digest, 100))
	if a.Status == event.ApprovalPending && !a.ExpiresAt.IsZero() {
		row("expires", a.ExpiresAt.UTC().Format(time.RFC3339)+" ("+Ago(a.ExpiresAt, now)+", then denied)")
	}
	if a.DecidedBy != "" {
		row("decided", "by "+Line(a.DecidedBy, 80)+reason(a))
	}
	fmt.Fprintln(w, s.Yellow("└"))
}

func statusWord(a event.Approval) string {
	if a.Status == event.ApprovalPending {
		return ""
	}
	word := string(a.Status)
	if a.Scope == event.ScopeSession {
		word += " for the session"
	}
	return word
}

func askedBy(a event.Approval) string {
	if a.RequestedBy == "" {
		return ""
	}
	return "for " + Line(a.RequestedBy, 80)
}

func reason(a event.Approval) string {
	if a.Reason == "" {
		return ""
	}
	return ": " + Line(a.Reason, 2000)
}

// Arguments shows a call's arguments over several lines, with their order and every member kept. Text that is not
// JSON is shown as it is.
func Arguments(args string) string {
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(args), "", "  "); err != nil {
		return Exact(args)
	}
	return Exact(b.String())
}

// Question shows one question with its numbered options.
func Question(w io.Writer, q event.Question, s Style) {
	fmt.Fprintf(w, "%s %s\n", s.Blue("?"), s.Bold(Line(q.Header, 80)))
	for line := range strings.SplitSeq(Text(q.Question), "\n") {
		fmt.Fprintf(w, "  %s\n", line)
	}
	for i, o := range q.Options {
		fmt.Fprintf(w, "  %s %s", s.Blue(fmt.Sprintf("%d)", i+1)), Line(o.Label, 200))
		if o.Description != "" {
			fmt.Fprintf(w, " %s", s.Dim("— "+Line(o.Description, 400)))
		}
		fmt.Fprintln(w)
	}
}
