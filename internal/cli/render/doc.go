// Package render shows events, runs, approvals and questions to people on a terminal.
//
// It owns the look of them and nothing else: it reads no input, makes no request and decides nothing.
//
// Invariants: text that a model, a tool or a file brought never reaches the terminal as it is. Control characters and
// the invisible characters that reorder or hide text are shown as escapes, so that what a person reads is what a
// program would run. An approval's arguments are shown whole.
package render
