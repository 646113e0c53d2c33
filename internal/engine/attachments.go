package engine

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/tool"
)

// Attachment is a file that goes to the model with a prompt: an image, a PDF or a text. Exactly one of Path and Data is
// given.
type Attachment struct {
	Path      string `json:"path,omitempty" doc:"file beneath the workspace, read when the run is accepted"`
	Data      string `json:"data,omitempty" doc:"the file itself, in base64"`
	MediaType string `json:"media_type,omitempty" doc:"must fit the content; absent: found out from it"`
	Filename  string `json:"filename,omitempty" doc:"name that the model is told; absent: that of path"`
}

// Bounds of attachments. All of a request have at most MaxAttachmentBytes together.
const (
	MaxAttachments     = 16
	MaxAttachmentBytes = 8 << 20
	maxAttachmentName  = 255
)

// AttachedFile is an attachment in a run's plan. Its content is an artifact of the conversation.
type AttachedFile struct {
	event.Attached
	Artifact string `json:"artifact"`
}

// Attached lists the files of the run's prompt.
func (p Plan) Attached() []event.Attached {
	var list []event.Attached
	for _, f := range p.Attachments {
		list = append(list, f.Attached)
	}
	return list
}

// attachments reads and checks the attachments of a request. They are read once, here: what becomes of a file in the
// workspace later does not change the run.
func attachments(workspace string, list []Attachment) ([]ai.FilePart, error) {
	if len(list) == 0 {
		return nil, nil
	}
	if len(list) > MaxAttachments {
		return nil, invalid("attachments", "has %d entries; at most %d are taken", len(list), MaxAttachments)
	}
	var root *os.Root
	left := MaxAttachmentBytes
	out := make([]ai.FilePart, 0, len(list))
	for i, a := range list {
		field := fmt.Sprintf("attachments[%d]", i)
		f := ai.FilePart{Filename: a.Filename}
		switch {
		case a.Path == "" && a.Data == "":
			return nil, invalid(field, "must have a path or data")
		case a.Path != "" && a.Data != "":
			return nil, invalid(field, "has both a path and data: keep one")
		case a.Data != "":
			if base64.StdEncoding.DecodedLen(len(a.Data)) > left+2 {
				return nil, tooMuchAttached(field + ".data")
			}
			data, err := base64.StdEncoding.DecodeString(a.Data)
			if err != nil {
				return nil, invalid(field+".data", "is not base64")
			}
			f.Data = data
		default:
			if root == nil {
				var err error
				if root, err = os.OpenRoot(workspace); err != nil {
					return nil, invalid("workspace", "%s cannot be opened", workspace)
				}
				defer func() { _ = root.Close() }()
			}
			data, err := readAttachment(root, field+".path", a.Path, left)
			if err != nil {
				return nil, err
			}
			if f.Data = data; f.Filename == "" {
				f.Filename = filepath.Base(a.Path)
			}
		}
		if len(f.Data) > left {
			return nil, tooMuchAttached(field)
		}
		left -= len(f.Data)
		if err := checkName(field+".filename", f.Filename); err != nil {
			return nil, err
		}
		var err error
		if f.MediaType, err = mediaType(field, a.MediaType, f.Data); err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

func tooMuchAttached(field string) error {
	return invalid(field, "all attachments together may have at most %d bytes", MaxAttachmentBytes)
}

// readAttachment reads a regular file beneath the workspace. Links are followed as far as they stay there.
func readAttachment(root *os.Root, field, path string, limit int) ([]byte, error) {
	if !filepath.IsLocal(path) {
		return nil, invalid(field, "%q must be a path beneath the workspace", path)
	}
	// Without O_NONBLOCK a pipe would wait for a writer.
	f, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, invalid(field, "%q does not exist in the workspace", path)
		}
		return nil, invalid(field, "%q cannot be read beneath the workspace", path)
	}
	defer func() { _ = f.Close() }()
	st, err := f.Stat()
	switch {
	case err != nil || !st.Mode().IsRegular():
		return nil, invalid(field, "%q is no regular file", path)
	case st.Size() > int64(limit):
		return nil, tooMuchAttached(field)
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil {
		return nil, invalid(field, "%q cannot be read beneath the workspace", path)
	}
	return data, nil
}

func checkName(field, name string) error {
	if len(name) > maxAttachmentName || !utf8.ValidString(name) || strings.ContainsAny(name, `/\`) || strings.ContainsFunc(name, unicode.IsControl) {
		return invalid(field, "must be a plain file name of at most %d bytes", maxAttachmentName)
	}
	return nil
}

// binaryTypes are the media types that providers take and that a file's first bytes tell for sure.
var binaryTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"}

// mediaType is what the content is. A provider refuses a request with a file that is not what it is said to be, and
// with it every later request of the conversation.
func mediaType(field, claimed string, data []byte) (string, error) {
	if len(data) == 0 {
		return "", invalid(field, "the file is empty")
	}
	said, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(claimed)), ";")
	if said == "image/jpg" {
		said = "image/jpeg"
	}
	is := http.DetectContentType(data)
	isText := utf8.Valid(data) && !slices.Contains(data, 0)
	switch {
	case slices.Contains(binaryTypes, is):
	case isText && (strings.HasPrefix(said, "text/") || said == "application/json"):
		return said, nil
	case isText:
		is = "text/plain"
	default:
		return "", invalid(field, "is neither a PNG, JPEG, GIF or WebP image nor a PDF nor a text in UTF-8")
	}
	if said != "" && said != is {
		return "", invalid(field+".media_type", "the content is %s", is)
	}
	return is, nil
}

// attach stores the content of attachments with the conversation.
func (e *Engine) attach(ctx context.Context, tenant, conversation string, files []ai.FilePart) (kept []AttachedFile, err error) {
	if len(files) == 0 {
		return nil, nil
	}
	session := artifactsOf(tenant, conversation)
	defer func() {
		if err != nil {
			e.forget(tenant, conversation, kept)
			kept = nil
		}
	}()
	store := e.artifacts.Session(session)
	for _, f := range files {
		w, err := store.Create(ctx, "")
		if err != nil {
			return kept, err
		}
		_, _ = w.Write(f.Data) // Commit tells a failure
		id, err := w.Commit()
		if err != nil {
			return kept, err
		}
		kept = append(kept, AttachedFile{event.Attached{MediaType: f.MediaType, Filename: f.Filename, Size: len(f.Data)}, id})
		if size, err := artifactSize(ctx, store, id); err != nil || size != int64(len(f.Data)) {
			return kept, errors.Join(err, conflict("conflict", "conversation %s keeps as many artifacts as it may: start another one", conversation))
		}
	}
	return kept, nil
}

func artifactSize(ctx context.Context, store tool.Artifacts, id string) (int64, error) {
	r, err := store.Open(ctx, id)
	if err != nil {
		return 0, err
	}
	return r.Size(), r.Close()
}

// forget removes what was kept for a run that is not created.
func (e *Engine) forget(tenant, conversation string, kept []AttachedFile) {
	for _, f := range kept {
		if err := e.artifacts.RemoveOne(artifactsOf(tenant, conversation), f.Artifact); err != nil {
			e.o.Logger.Warn("attachment of a refused run not removed", "conversation", conversation, "error", err)
		}
	}
}

// prompt is the run's prompt with its attachments.
func (s *segment) prompt(ctx context.Context, store tool.Artifacts) (ai.Message, error) {
	m := ai.UserMessage(s.run.Prompt)
	for _, f := range s.plan.Attachments {
		data, err := readArtifact(ctx, store, f)
		if err != nil {
			return ai.Message{}, fmt.Errorf("engine: attachment %s of run %s: %w", f.Artifact, s.run.ID, err)
		}
		m.Content = append(m.Content, ai.FilePart{MediaType: f.MediaType, Data: data, Filename: f.Filename})
	}
	return m, nil
}

func readArtifact(ctx context.Context, store tool.Artifacts, f AttachedFile) ([]byte, error) {
	r, err := store.Open(ctx, f.Artifact)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	if r.Size() != int64(f.Size) {
		return nil, fmt.Errorf("has %d bytes, not %d", r.Size(), f.Size)
	}
	data := make([]byte, f.Size)
	_, err = io.ReadFull(io.NewSectionReader(r, 0, r.Size()), data)
	return data, err
}
