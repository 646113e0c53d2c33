package builtin

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/harness-go/harness/sandbox"
	"github.com/harness-go/harness/tool"
)

// pictures are small images of each type that models see.
func pictures(t testing.TB) map[string][]byte {
	t.Helper()
	m := image.NewPaletted(image.Rect(0, 0, 3, 2), color.Palette{color.Black, color.White})
	var p, j, g bytes.Buffer
	for _, err := range []error{png.Encode(&p, m), jpeg.Encode(&j, m, nil), gif.Encode(&g, m, nil)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	lossless, err := base64.StdEncoding.DecodeString("UklGRhoAAABXRUJQVlA4TA0AAAAvAgAAEAcQERGIiP4HAA==")
	if err != nil {
		t.Fatal(err)
	}
	copy(lossless[21:], []byte{0x02, 0x40, 0x00}) // 3 x 2
	return map[string][]byte{"image/png": p.Bytes(), "image/jpeg": j.Bytes(), "image/gif": g.Bytes(), "image/webp": lossless}
}

func TestImagesGoToTheModelAsTheyAre(t *testing.T) {
	s := newSession(t, false)
	for mediaType, data := range pictures(t) {
		s.write("dir/picture.txt", string(data)) // the name says nothing
		res := s.call("read", args{"path": "dir/picture.txt"})
		r := decoded[imageResult](t, res)
		if r.MediaType != mediaType || r.Width != 3 || r.Height != 2 || r.Size != len(data) || r.Version != sandbox.Version(data) || r.Path != "dir/picture.txt" {
			t.Errorf("%s: %+v", mediaType, r)
		}
		if len(res.Files) != 1 || res.Files[0].MediaType != mediaType || !bytes.Equal(res.Files[0].Data, data) || res.Files[0].Filename != "picture.txt" {
			t.Errorf("%s: files %+v", mediaType, res.Files)
		}
		if res.Seen["dir/picture.txt"] != r.Version || len(res.Output) > 300 {
			t.Errorf("%s: seen %v, %s", mediaType, res.Seen, res.Output)
		}
		w, err := s.env.Artifacts.Create(t.Context(), "c")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write(data)
		id, err := w.Commit()
		if err != nil {
			t.Fatal(err)
		}
		if res := s.call("read", args{"path": "artifact:" + id}); len(res.Files) != 1 || len(res.Seen) != 0 {
			t.Errorf("%s as an artifact: %s", mediaType, res.Output)
		}
	}
}

// ou-02 for images: what a provider would refuse never becomes a part of the conversation.
func TestABrokenImageIsDescribedAndNotShown(t *testing.T) {
	s := newSession(t, false)
	for mediaType, data := range pictures(t) {
		for _, cut := range []int{len(data) - 1, len(data) / 2, 16} {
			s.write("i", string(data[:cut]))
			res := s.call("read", args{"path": "i"})
			if len(res.Files) != 0 || res.Error != "" {
				t.Errorf("%s cut to %d of %d bytes: %s", mediaType, cut, len(data), res.Output)
			}
		}
	}
	s.write("i", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")
	if r := decoded[binaryResult](t, s.call("read", args{"path": "i"})); !strings.Contains(r.Note, "cannot be shown") || r.SHA256 == "" {
		t.Errorf("%+v", r)
	}
	s.write("i", "GIF89a is how a GIF begins\n") // a text
	if r := decoded[readResult](t, s.call("read", args{"path": "i"})); r.Content != "GIF89a is how a GIF begins\n" {
		t.Errorf("%+v", r)
	}
	s.write("i", "BM\x00\x00\x00\x00")
	if r := decoded[binaryResult](t, s.call("read", args{"path": "i"})); !strings.Contains(r.Note, "not shown; make a PNG") {
		t.Errorf("%+v", r)
	}
}

func TestAnImageThatIsTooLargeSaysWhatToDo(t *testing.T) {
	s := newSession(t, false)
	noise := image.NewGray(image.Rect(0, 0, 2000, 2000))
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(noise.Pix)
	var b bytes.Buffer
	if err := png.Encode(&b, noise); err != nil {
		t.Fatal(err)
	}
	s.write("big.png", b.String())
	res := s.call("read", args{"path": "big.png"})
	refused(t, res, tool.CodeTooLarge, "big.png", "3750000", "smaller copy")
	if len(res.Files) != 0 {
		t.Error("it was given all the same")
	}
	b.Reset()
	if err := png.Encode(&b, image.NewPaletted(image.Rect(0, 0, maxImageSide+1, 1), color.Palette{color.Black})); err != nil {
		t.Fatal(err)
	}
	s.write("wide.png", b.String())
	refused(t, s.call("read", args{"path": "wide.png"}), tool.CodeTooLarge, "8001 x 1 pixels")
}

// FuzzMeasure: no content makes the measuring panic, and what it takes has a size.
func FuzzMeasure(f *testing.F) {
	for _, data := range pictures(f) {
		f.Add(data)
	}
	f.Add([]byte("RIFF\x16\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x01\x00\x00"))
	f.Add([]byte("RIFF\x16\x00\x00\x00WEBPVP8 \x0a\x00\x00\x00\x00\x00\x00\x9d\x01\x2a\x03\x00\x02\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, mediaType := range imageTypes {
			w, h, err := measure(data, mediaType)
			if err == nil && (w <= 0 || h <= 0) {
				t.Fatalf("%s: %d x %d", mediaType, w, h)
			}
		}
	})
}
