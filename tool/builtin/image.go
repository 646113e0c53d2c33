package builtin

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"net/http"
	"path"
	"slices"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/sandbox"
	"github.com/harness-go/harness/tool"
)

// Bounds of the images that go to a model: bytes, so that base64 stays below what every wire takes, and pixels of a side.
const (
	maxImage     = 3_750_000
	maxImageSide = 8000
)

var imageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// imageType is the media type of content that begins like an image which models can see, by its bytes and not its
// name. Empty: it is something else.
func imageType(head []byte) string {
	if t := http.DetectContentType(head); slices.Contains(imageTypes, t) {
		return t
	}
	return ""
}

type imageResult struct {
	Path      string `json:"path"`
	MediaType string `json:"media_type"`
	Size      int    `json:"size"`
	Width     int    `json:"width"`
	Height    int    `json:"height"`
	Version   string `json:"version,omitempty"`
	Note      string `json:"note"`
}

// readImage reads an image that is to go to the model as it is. A broken one is refused: a provider would refuse the
// request, and every later one that holds it.
func readImage(ctx context.Context, src io.ReaderAt, display, mediaType string, size int64) (picture, error) {
	if size > maxImage {
		return picture{}, fail(tool.CodeTooLarge, "argument path: %s is an image of at least %d bytes, more than %d: make a smaller copy with bash (another size, quality or format) and read that", display, size, maxImage)
	}
	data, err := io.ReadAll(&ctxReader{ctx, io.NewSectionReader(src, 0, maxImage+1)})
	if err != nil {
		return picture{}, err
	}
	if len(data) > maxImage { // it grew
		return picture{}, fail(tool.CodeTooLarge, "argument path: %s is an image of more than %d bytes: make a smaller copy with bash and read that", display, maxImage)
	}
	width, height, err := measure(data, mediaType)
	if err != nil {
		return picture{}, &brokenImage{err}
	}
	if width > maxImageSide || height > maxImageSide {
		return picture{}, fail(tool.CodeTooLarge, "argument path: %s is an image of %d x %d pixels, more than %d on a side: make a smaller copy with bash and read that", display, width, height, maxImageSide)
	}
	return picture{display, mediaType, data, width, height}, nil
}

// picture is an image that a model can be shown.
type picture struct {
	display, mediaType string
	data               []byte
	width, height      int
}

// result shows the image. One of the workspace has a version, an artifact has not.
func (p picture) result(env tool.Env, isArtifact bool) (tool.Result, error) {
	out := imageResult{
		Path: p.display, MediaType: p.mediaType, Size: len(p.data), Width: p.width, Height: p.height,
		Note: "the image stands beside this text",
	}
	if !isArtifact {
		out.Version = sandbox.Version(p.data)
	}
	res, err := tool.JSONResult(out)
	if err != nil {
		return tool.Result{}, err
	}
	res.Files = []ai.FilePart{{MediaType: p.mediaType, Data: p.data, Filename: path.Base(p.display)}}
	saw(env, &res, p.display, out.Version)
	return res, nil
}

// brokenImage is content that begins like an image and is none.
type brokenImage struct{ err error }

func (b *brokenImage) Error() string { return b.err.Error() }

var errCutOff = errors.New("it is cut off")

// measure finds the size in pixels, and that the image is there to its end.
func measure(data []byte, mediaType string) (width, height int, err error) {
	var c image.Config
	whole := true
	r := bytes.NewReader(data)
	switch mediaType {
	case "image/png":
		c, err = png.DecodeConfig(r)
		whole = pngEnds(data)
	case "image/jpeg":
		c, err = jpeg.DecodeConfig(r)
		whole = bytes.Contains(data, []byte{0xff, 0xd9})
	case "image/gif":
		c, err = gif.DecodeConfig(r)
		whole = bytes.HasSuffix(bytes.TrimRight(data, "\x00"), []byte{0x3b})
	default:
		return webpSize(data)
	}
	switch {
	case err != nil:
		return 0, 0, err
	case !whole:
		return 0, 0, errCutOff
	case c.Width <= 0 || c.Height <= 0:
		return 0, 0, fmt.Errorf("it has %d x %d pixels", c.Width, c.Height)
	}
	return c.Width, c.Height, nil
}

// pngEnds walks over the chunks to the last one.
func pngEnds(data []byte) bool {
	const signature, frame = 8, 12 // a chunk's length, type and checksum
	for at := signature; at+frame <= len(data); {
		size := binary.BigEndian.Uint32(data[at:])
		if uint64(size) > uint64(len(data)-at-frame) {
			return false
		}
		if string(data[at+4:at+8]) == "IEND" {
			return true
		}
		at += frame + int(size)
	}
	return false
}

// webpSize reads the header of a WebP file in each of its three forms.
func webpSize(data []byte) (width, height int, err error) {
	if len(data) < 30 || uint64(binary.LittleEndian.Uint32(data[4:]))+8 > uint64(len(data)) {
		return 0, 0, errCutOff
	}
	u16 := func(at int) int { return int(binary.LittleEndian.Uint16(data[at:])) }
	switch string(data[12:16]) {
	case "VP8 ":
		if string(data[23:26]) == "\x9d\x01\x2a" {
			width, height = u16(26)&0x3fff, u16(28)&0x3fff
		}
	case "VP8L":
		if bits := binary.LittleEndian.Uint32(data[21:]); data[20] == 0x2f {
			width, height = int(bits&0x3fff)+1, int(bits>>14&0x3fff)+1
		}
	case "VP8X":
		width, height = (u16(24)|int(data[26])<<16)+1, (u16(27)|int(data[29])<<16)+1
	}
	if width <= 0 || height <= 0 {
		return 0, 0, errors.New("its header cannot be read")
	}
	return width, height, nil
}
