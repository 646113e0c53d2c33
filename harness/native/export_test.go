package native

// For the fuzz target, which would spend its time on the disk otherwise.
var (
	DecodeLines = decodeLines
	EncodeLine  = encodeLine
)

// Cut takes the items after the n-th away.
func (m *MemoryTranscript) Cut(session string, n int) { m.items[session] = m.items[session][:n] }
