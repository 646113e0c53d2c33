package cli

import (
	"encoding/base64"
	"path/filepath"

	"github.com/harness-go/harness/internal/engine"
)

// attachments reads the files of --attach. They travel with the request: they need not be in the workspace, nor on the
// machine of the daemon.
func (a *app) attachments(files []string) ([]engine.Attachment, error) {
	if len(files) > engine.MaxAttachments {
		return nil, usageError("--attach: at most %d files can be attached", engine.MaxAttachments)
	}
	var out []engine.Attachment
	left := int64(engine.MaxAttachmentBytes)
	for _, file := range files {
		data, err := a.readInput(file, left)
		if err != nil {
			return nil, usageError("--attach: %w (all files together may have %d bytes)", err, engine.MaxAttachmentBytes)
		}
		left -= int64(len(data))
		f := engine.Attachment{Data: base64.StdEncoding.EncodeToString(data)}
		if file == "-" {
			a.inTerminal = false // the input is used up
		} else {
			f.Filename = filepath.Base(file)
		}
		if len(data) == 0 {
			return nil, usageError("--attach: %s is empty", file)
		}
		out = append(out, f)
	}
	return out, nil
}
