package harness

import (
	"context"
	"encoding/json"

	"github.com/harness-go/harness/ai"
)

// HistoryReader is implemented by adapter sessions that can read the conversation that the runtime keeps.
type HistoryReader interface {
	// DoReadHistory returns what follows the cursor since, or everything when it is empty. A history that cannot be
	// reached is a *HistoryUnavailableError.
	DoReadHistory(ctx context.Context, since string) (*ReadHistoryResult, error)
}

// ReadHistoryResult is a part of a conversation.
type ReadHistoryResult struct {
	Messages []HistoryMessage `json:"messages"`
	// Cursor is opaque; it is the since of the next read.
	Cursor string `json:"cursor"`
}

// HistoryMessage is a message of the user, the assistant or a tool. At is its timestamp, empty when unknown.
type HistoryMessage struct {
	ai.Message
	At              string
	HarnessMetadata Metadata
}

type historyExtras struct {
	At              string   `json:"at,omitempty"`
	HarnessMetadata Metadata `json:"harnessMetadata,omitempty"`
}

// MarshalJSON writes the message with its extras.
func (m HistoryMessage) MarshalJSON() ([]byte, error) {
	body, err := json.Marshal(m.Message)
	if err != nil {
		return nil, err
	}
	extras, err := plainJSON(historyExtras{m.At, m.HarnessMetadata})
	if err != nil || len(extras) <= 2 {
		return body, err
	}
	return append(append(body[:len(body)-1], ','), extras[1:]...), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (m *HistoryMessage) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, &m.Message); err != nil {
		return err
	}
	var x historyExtras
	if err := json.Unmarshal(data, &x); err != nil {
		return err
	}
	m.At, m.HarnessMetadata = x.At, x.HarnessMetadata
	return nil
}
