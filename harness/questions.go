package harness

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// QuestionsToolDescription is the description of the questions tool.
const QuestionsToolDescription = "Ask the user one or more questions"

// QuestionsToolInput is the input of the questions tool.
type QuestionsToolInput struct {
	// AllowPartialAnswers: the user may leave questions open.
	AllowPartialAnswers bool       `json:"allowPartialAnswers"`
	Questions           []Question `json:"questions"`
}

// Question is one question to the user. Without options only a free-form answer is possible.
type Question struct {
	ID            string           `json:"id"`
	Question      string           `json:"question"`
	Header        string           `json:"header,omitempty"`
	Options       []QuestionOption `json:"options,omitempty"`
	AllowMultiple bool             `json:"allowMultiple,omitempty"`
	// AllowFreeForm is nil where a free-form answer is not allowed.
	AllowFreeForm *AllowFreeForm `json:"allowFreeForm,omitempty"`
}

// QuestionOption is one choice.
type QuestionOption struct {
	ID          string `json:"id"`
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
	Preview     string `json:"preview,omitempty"`
}

// AllowFreeForm says whether the user may answer in their own words. In JSON it is a boolean or {"secret": boolean};
// the latter implies that free form is allowed.
type AllowFreeForm struct {
	Enabled bool
	// Secret is nil for the boolean form. A secret answer must not be shown or logged.
	Secret *bool
}

// MarshalJSON writes the form that was read.
func (a AllowFreeForm) MarshalJSON() ([]byte, error) {
	if a.Secret != nil {
		return json.Marshal(struct {
			Secret bool `json:"secret"`
		}{*a.Secret})
	}
	return json.Marshal(a.Enabled)
}

// UnmarshalJSON reads both forms.
func (a *AllowFreeForm) UnmarshalJSON(data []byte) error {
	*a = AllowFreeForm{}
	if err := json.Unmarshal(data, &a.Enabled); err == nil {
		return nil
	}
	var o struct {
		Secret *bool `json:"secret"`
	}
	if err := json.Unmarshal(data, &o); err != nil || o.Secret == nil {
		return errors.New("allowFreeForm must be a boolean or {\"secret\": boolean}")
	}
	a.Enabled, a.Secret = true, o.Secret
	return nil
}

// The values of QuestionsToolOutput.Action.
const (
	QuestionsActionAnswered          = "answered"
	QuestionsActionPartiallyAnswered = "partially-answered"
	QuestionsActionDeclined          = "declined"
	QuestionsActionCancelled         = "cancelled"
)

// QuestionsToolOutput is what the user did. Answers, by question id, belong to answered and partially-answered.
type QuestionsToolOutput struct {
	Action  string
	Answers map[string]QuestionAnswer
}

// QuestionAnswer is the answer to one question: the chosen options and the free-form text.
type QuestionAnswer struct {
	OptionIDs []string `json:"optionIds"`
	Freeform  *string  `json:"freeform,omitempty"`
}

// MarshalJSON writes optionIds as an array, also when there are none.
func (a QuestionAnswer) MarshalJSON() ([]byte, error) {
	if a.OptionIDs == nil {
		a.OptionIDs = []string{}
	}
	type plain QuestionAnswer
	return json.Marshal(plain(a))
}

func (o QuestionsToolOutput) answered() bool {
	return o.Action == QuestionsActionAnswered || o.Action == QuestionsActionPartiallyAnswered
}

// MarshalJSON writes answers only where the action has them.
func (o QuestionsToolOutput) MarshalJSON() ([]byte, error) {
	if !o.answered() {
		return json.Marshal(struct {
			Action string `json:"action"`
		}{o.Action})
	}
	answers := o.Answers
	if answers == nil {
		answers = map[string]QuestionAnswer{}
	}
	return json.Marshal(struct {
		Action  string                    `json:"action"`
		Answers map[string]QuestionAnswer `json:"answers"`
	}{o.Action, answers})
}

// UnmarshalJSON is ParseQuestionsToolOutput.
func (o *QuestionsToolOutput) UnmarshalJSON(data []byte) error {
	v, err := ParseQuestionsToolOutput(data)
	if err == nil {
		*o = v
	}
	return err
}

// ParseQuestionsToolInput reads and checks the input of the questions tool. Unknown members are dropped. The error
// names the member.
func ParseQuestionsToolInput(data []byte) (QuestionsToolInput, error) {
	var in struct {
		AllowPartialAnswers *bool `json:"allowPartialAnswers"`
		Questions           *[]struct {
			ID       *string `json:"id"`
			Question *string `json:"question"`
			Header   *string `json:"header"`
			Options  []struct {
				ID          *string `json:"id"`
				Label       *string `json:"label"`
				Description *string `json:"description"`
				Preview     *string `json:"preview"`
			} `json:"options"`
			AllowMultiple *bool           `json:"allowMultiple"`
			AllowFreeForm json.RawMessage `json:"allowFreeForm"`
		} `json:"questions"`
	}
	out := QuestionsToolInput{}
	if err := strictJSON(data, &in); err != nil {
		return out, fmt.Errorf("questions: %w", err)
	}
	if err := refuseNulls(data); err != nil {
		return out, fmt.Errorf("questions: %w", err)
	}
	if in.AllowPartialAnswers == nil {
		return out, errors.New("questions: allowPartialAnswers is required")
	}
	if in.Questions == nil || len(*in.Questions) == 0 {
		return out, errors.New("questions: questions must hold at least one question")
	}
	out.AllowPartialAnswers = *in.AllowPartialAnswers
	for i, q := range *in.Questions {
		at := fmt.Sprintf("questions: questions[%d].", i)
		if q.ID == nil || *q.ID == "" {
			return out, errors.New(at + "id is required")
		}
		if q.Question == nil || *q.Question == "" {
			return out, errors.New(at + "question is required")
		}
		v := Question{ID: *q.ID, Question: *q.Question, Header: text(q.Header)}
		if q.Options != nil {
			v.Options = []QuestionOption{}
		}
		for j, o := range q.Options {
			if o.ID == nil || *o.ID == "" {
				return out, fmt.Errorf("%soptions[%d].id is required", at, j)
			}
			if o.Label == nil || *o.Label == "" {
				return out, fmt.Errorf("%soptions[%d].label is required", at, j)
			}
			v.Options = append(v.Options, QuestionOption{ID: *o.ID, Label: *o.Label, Description: text(o.Description), Preview: text(o.Preview)})
		}
		v.AllowMultiple = q.AllowMultiple != nil && *q.AllowMultiple
		if len(q.AllowFreeForm) > 0 {
			v.AllowFreeForm = new(AllowFreeForm)
			if err := v.AllowFreeForm.UnmarshalJSON(q.AllowFreeForm); err != nil {
				return out, fmt.Errorf("%s%w", at, err)
			}
		}
		out.Questions = append(out.Questions, v)
	}
	return out, nil
}

// ParseQuestionsToolOutput reads and checks the output of the questions tool. Answers of an action that has none are
// dropped.
func ParseQuestionsToolOutput(data []byte) (QuestionsToolOutput, error) {
	var in struct {
		Action  string          `json:"action"`
		Answers json.RawMessage `json:"answers"`
	}
	out := QuestionsToolOutput{}
	if err := strictJSON(data, &in); err != nil {
		return out, fmt.Errorf("questions: %w", err)
	}
	switch in.Action {
	case QuestionsActionDeclined, QuestionsActionCancelled:
		out.Action = in.Action
		return out, nil
	case QuestionsActionAnswered, QuestionsActionPartiallyAnswered:
		out.Action = in.Action
	default:
		return out, errors.New("questions: action must be one of answered, partially-answered, declined, cancelled")
	}
	var answers map[string]struct {
		OptionIDs *[]string `json:"optionIds"`
		Freeform  *string   `json:"freeform"`
	}
	if len(in.Answers) == 0 || string(in.Answers) == "null" {
		return out, errors.New("questions: answers is required")
	}
	if err := strictJSON(in.Answers, &answers); err != nil {
		return out, fmt.Errorf("questions: answers: %w", err)
	}
	if err := refuseNulls(in.Answers); err != nil {
		return out, fmt.Errorf("questions: answers: %w", err)
	}
	out.Answers = make(map[string]QuestionAnswer, len(answers))
	for id, a := range answers {
		if a.OptionIDs == nil {
			return out, fmt.Errorf("questions: answers[%q].optionIds is required", id)
		}
		out.Answers[id] = QuestionAnswer{OptionIDs: *a.OptionIDs, Freeform: a.Freeform}
	}
	return out, nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// QuestionsToolInputJSONSchema is the JSON Schema of the questions tool's input.
func QuestionsToolInputJSONSchema() json.RawMessage {
	return json.RawMessage(`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{` +
		`"allowPartialAnswers":{"type":"boolean"},` +
		`"questions":{"minItems":1,"type":"array","items":{"type":"object","properties":{` +
		`"id":{"type":"string","minLength":1},"question":{"type":"string","minLength":1},"header":{"type":"string"},` +
		`"options":{"type":"array","items":{"type":"object","properties":{` +
		`"id":{"type":"string","minLength":1},"label":{"type":"string","minLength":1},` +
		`"description":{"type":"string"},"preview":{"type":"string"}},` +
		`"required":["id","label"],"additionalProperties":false}},` +
		`"allowMultiple":{"type":"boolean"},` +
		`"allowFreeForm":{"anyOf":[{"type":"boolean"},{"type":"object","properties":{"secret":{"type":"boolean"}},` +
		`"required":["secret"],"additionalProperties":false}]}},` +
		`"required":["id","question"],"additionalProperties":false}}},` +
		`"required":["allowPartialAnswers","questions"],"additionalProperties":false}`)
}

// QuestionsToolOutputJSONSchema is the JSON Schema of the questions tool's output.
func QuestionsToolOutputJSONSchema() json.RawMessage {
	var b bytes.Buffer
	b.WriteString(`{"$schema":"http://json-schema.org/draft-07/schema#","oneOf":[`)
	for _, action := range []string{QuestionsActionAnswered, QuestionsActionPartiallyAnswered} {
		b.WriteString(`{"type":"object","properties":{"action":{"type":"string","const":"` + action + `"},` +
			`"answers":{"type":"object","propertyNames":{"type":"string"},"additionalProperties":{"type":"object",` +
			`"properties":{"optionIds":{"type":"array","items":{"type":"string"}},"freeform":{"type":"string"}},` +
			`"required":["optionIds"],"additionalProperties":false}}},` +
			`"required":["action","answers"],"additionalProperties":false},`)
	}
	for i, action := range []string{QuestionsActionDeclined, QuestionsActionCancelled} {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"type":"object","properties":{"action":{"type":"string","const":"` + action + `"}},` +
			`"required":["action"],"additionalProperties":false}`)
	}
	b.WriteString(`]}`)
	return b.Bytes()
}
