package builtin

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// substitution replaces one text by another, byte for byte. The only liberty is the line ending: models write LF, so
// in a file with CRLF both texts take the file's ending.
type substitution struct {
	data, old, new []byte
}

func newSubstitution(data, old, new []byte) substitution {
	s := substitution{data, old, new}
	switch {
	case uniformCRLF(data):
		// Here a bare LF can only be the second half of an ending; taking it by itself would tear the ending apart.
		s.old, s.new = toCRLF(old), toCRLF(new)
	case !bytes.Contains(data, old):
		if crlf := toCRLF(old); bytes.Contains(data, crlf) {
			s.old, s.new = crlf, toCRLF(new)
		}
	}
	return s
}

// maxLines is how many places an answer lists.
const maxLines = 10

// lines gives the line numbers of the first matches and the number of all, overlapping ones included: in "aaa" it is
// not clear which "aa" is meant.
func (s substitution) lines() (lines []int, count int) {
	line, at := 1, 0
	for {
		i := bytes.Index(s.data[at:], s.old)
		if i < 0 {
			return lines, count
		}
		count++
		if len(lines) < maxLines {
			line += bytes.Count(s.data[at:at+i], []byte{'\n'})
			lines = append(lines, line)
			line += bytes.Count(s.data[at+i:at+i+1], []byte{'\n'})
		}
		at += i + 1
	}
}

func (s substitution) apply() []byte { return bytes.ReplaceAll(s.data, s.old, s.new) }

// uniformCRLF reports whether data has line endings and all of them are CRLF.
func uniformCRLF(data []byte) bool {
	lf := bytes.Count(data, []byte{'\n'})
	return lf > 0 && lf == bytes.Count(data, []byte("\r\n"))
}

// toCRLF makes each bare LF a CRLF.
func toCRLF(b []byte) []byte {
	out := make([]byte, 0, len(b)+8)
	for i, c := range b {
		if c == '\n' && (i == 0 || b[i-1] != '\r') {
			out = append(out, '\r')
		}
		out = append(out, c)
	}
	return out
}

func joinLines(lines []int, count int) string {
	parts := make([]string, len(lines))
	for i, n := range lines {
		parts[i] = strconv.Itoa(n)
	}
	s := strings.Join(parts, ", ")
	if count > len(lines) {
		s += fmt.Sprintf(" and %d more", count-len(lines))
	}
	return s
}

// Bounds of the search for the nearest text: lines looked at, and bytes of each that count.
const (
	nearLines = 20_000
	nearBytes = 400
)

// explainMiss says where the file comes nearest to a text that it does not hold.
func explainMiss(data []byte, old string) string {
	if len(data) == 0 {
		return "the file is empty"
	}
	have := strings.SplitN(string(data[:min(len(data), 8<<20)]), "\n", nearLines+1)
	have = have[:min(len(have), nearLines)]
	want := strings.Split(strings.Trim(old, "\r\n"), "\n")
	if n := sameButSpace(have, want); n > 0 {
		return fmt.Sprintf("line %d differs from it only in white space; the file has %s there, copy it exactly", n, quote(clip(have[n-1], nearBytes)))
	}
	first := want[0]
	for _, w := range want {
		if strings.TrimSpace(w) != "" {
			first = w
			break
		}
	}
	line, alike := nearest(have, first)
	if alike < 0.5 {
		return "no line of the file is like it; read the file again"
	}
	if alike == 1 {
		return fmt.Sprintf("its first line is there, at line %d, but not what follows; read from there again", line)
	}
	return fmt.Sprintf("nearest is line %d (%d%% alike): %s", line, int(alike*100), quote(clip(have[line-1], nearBytes)))
}

// sameButSpace finds the first line, from 1, where the wanted lines stand with other white space; 0 if nowhere.
func sameButSpace(have, want []string) int {
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	wanted := make([]string, len(want))
	blank := true
	for i, w := range want {
		wanted[i] = squeeze(w)
		blank = blank && wanted[i] == ""
	}
	if blank || len(want) > len(have) {
		return 0
	}
	squeezed := make([]string, len(have))
	for i, h := range have {
		squeezed[i] = squeeze(h)
	}
next:
	for i := range len(have) - len(want) + 1 {
		for k, w := range wanted {
			if squeezed[i+k] != w {
				continue next
			}
		}
		return i + 1
	}
	return 0
}

// nearest finds the line that shares most pairs of bytes with the wanted one (Dice's coefficient, 0 to 1).
func nearest(have []string, want string) (line int, alike float64) {
	want = head(strings.TrimSpace(want))
	pairs := make(map[[2]byte]int, len(want))
	for i := range len(want) - 1 {
		pairs[[2]byte{want[i], want[i+1]}]++
	}
	for n, h := range have {
		h = head(strings.TrimSpace(h))
		score := 0.0
		switch {
		case h == want && h != "":
			score = 1
		case len(h) > 1 && len(want) > 1:
			score = min(0.99, dice(h, want, pairs))
		}
		if score > alike {
			line, alike = n+1, score
		}
	}
	return line, alike
}

func dice(h, want string, pairs map[[2]byte]int) float64 {
	total := len(h) - 1 + len(want) - 1
	if longest := 2 * (min(len(h), len(want)) - 1); longest*2 < total {
		return 0 // at best less than a half alike: not worth counting
	}
	used := make(map[[2]byte]int, len(h))
	shared := 0
	for i := range len(h) - 1 {
		p := [2]byte{h[i], h[i+1]}
		if used[p] < pairs[p] {
			used[p]++
			shared++
		}
	}
	return 2 * float64(shared) / float64(total)
}

func head(s string) string { return s[:min(len(s), nearBytes)] }
