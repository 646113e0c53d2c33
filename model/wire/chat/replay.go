package chat

import (
	"io"
	"iter"

	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/wire/sse"
	"github.com/harness-go/harness/model/wire/transport"
)

// Decode reads the body of an answer, as a server sent it, from src. requested is the model that was asked for. See
// transport.Decode.
func Decode(src io.Reader, provider, requested string) iter.Seq2[model.Part, error] {
	return transport.Decode(src, provider, func(body io.Reader, emit func(model.Part) error) error {
		return read(body, sse.DefaultMaxEvent, newDecoder(requested, emit))
	})
}
