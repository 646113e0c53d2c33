package native

// For the fuzz target, which would spend its time on the disk otherwise.
var (
	DecodeLines = decodeLines
	EncodeLine  = encodeLine
)
