package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/tool"
)

// questionTool is our question tool's own name. On the stream it appears as the common askUserQuestions,
// whose ids are the numbers of our questions and options.
const questionTool = "AskUserQuestion"

func parseQuestions(args string) ([]event.Question, error) {
	var in struct {
		Questions []event.Question `json:"questions"`
	}
	if err := json.Unmarshal([]byte(args), &in); err != nil {
		return nil, err
	}
	if len(in.Questions) == 0 {
		return nil, errors.New("no questions")
	}
	for i, q := range in.Questions {
		if slices.ContainsFunc(in.Questions[:i], func(o event.Question) bool { return o.Question == q.Question }) {
			return nil, fmt.Errorf("invalid arguments for %s: two questions have the text %q; answers are told apart by it", questionTool, q.Question)
		}
	}
	return in.Questions, nil
}

// commonQuestions is our tool's input in the common form.
func commonQuestions(args string) (string, error) {
	qs, err := parseQuestions(args)
	if err != nil {
		return "", err
	}
	in := harness.QuestionsToolInput{}
	for i, q := range qs {
		c := harness.Question{ID: strconv.Itoa(i + 1), Question: q.Question, Header: q.Header, AllowMultiple: q.MultiSelect, AllowFreeForm: &harness.AllowFreeForm{Enabled: true}}
		for j, o := range q.Options {
			c.Options = append(c.Options, harness.QuestionOption{ID: strconv.Itoa(j + 1), Label: o.Label, Description: o.Description})
		}
		in.Questions = append(in.Questions, c)
	}
	b, err := json.Marshal(in)
	return string(b), err
}

// question records the question and waits for its answer, which comes as a submitted result.
func (t *turn) question(ctx context.Context, step int, c ai.ToolCallPart, args json.RawMessage) (disposition, error) {
	qs, err := parseQuestions(string(args))
	if err != nil {
		return refused(tool.Failure(tool.CodeInvalidArguments, "questions: %s", err)), nil
	}
	if d, err := t.given(c); err != nil || d.result != nil {
		return d, err
	}
	if _, err := t.s.gate.Question(ctx, step, c.ToolCallID, questionTool, qs); err != nil {
		return disposition{}, err
	}
	return disposition{waiting: true}, nil
}

// answered turns a submitted answer into the result that the model reads: {"answers": {question: [values]}}.
func answered(qs []event.Question, r harness.ToolResultSubmission) (disposition, error) {
	raw, err := json.Marshal(r.Output)
	if err != nil {
		return disposition{}, fmt.Errorf("native: answer: %w", err)
	}
	out, err := harness.ParseQuestionsToolOutput(raw)
	if err != nil {
		return refused(tool.Failure(tool.CodeFailed, "the answer cannot be read: %s", err)), nil
	}
	switch out.Action {
	case harness.QuestionsActionAnswered, harness.QuestionsActionPartiallyAnswered:
	case harness.QuestionsActionCancelled:
		return refused(tool.Failure(tool.CodeTimeout, "no answer: the question was cancelled, or nobody answered in time; go on with what you know, or end and say what you need")), nil
	default:
		return refused(tool.Failure(tool.CodePermissionDenied, "the user declined to answer")), nil
	}
	answers := map[string][]string{}
	for i, q := range qs {
		a, ok := out.Answers[strconv.Itoa(i+1)]
		if !ok {
			continue
		}
		values := []string{}
		for _, id := range a.OptionIDs {
			n, err := strconv.Atoi(id)
			if err != nil || n < 1 || n > len(q.Options) {
				return refused(tool.Failure(tool.CodeFailed, "the answer cannot be read: question %q has no option %q", q.Question, id)), nil
			}
			values = append(values, q.Options[n-1].Label)
		}
		if a.Freeform != nil && *a.Freeform != "" {
			values = append(values, *a.Freeform)
		}
		answers[q.Question] = values
	}
	res, err := tool.JSONResult(map[string]any{"answers": answers})
	if err != nil {
		return disposition{}, err
	}
	return refused(res), nil
}

// CommonAnswer is the common form of an answer to our question tool, for hosts that keep answers by question and
// value. A value that is not one of the labels is free text. With answers nil nobody answered in time.
func CommonAnswer(qs []event.Question, answers map[string][]string) harness.QuestionsToolOutput {
	if answers == nil {
		return harness.QuestionsToolOutput{Action: harness.QuestionsActionCancelled}
	}
	out := harness.QuestionsToolOutput{Action: harness.QuestionsActionAnswered, Answers: map[string]harness.QuestionAnswer{}}
	for i, q := range qs {
		a := harness.QuestionAnswer{OptionIDs: []string{}}
		for _, v := range answers[q.Question] {
			if id := optionID(q, v); id != "" {
				a.OptionIDs = append(a.OptionIDs, id)
				continue
			}
			if a.Freeform != nil {
				v = *a.Freeform + "\n" + v
			}
			a.Freeform = &v
		}
		out.Answers[strconv.Itoa(i+1)] = a
	}
	return out
}

func optionID(q event.Question, label string) string {
	for j, o := range q.Options {
		if o.Label == label {
			return strconv.Itoa(j + 1)
		}
	}
	return ""
}
