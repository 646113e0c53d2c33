// Package cli is the program harness.
//
// It owns the commands, their flags, exit codes and output. It owns no run logic: every command goes through the
// client of the run API, whose other side is a daemon on a server, the node that has the state directory (over its
// socket), or a node inside this process, so that all three run the same code.
//
// Invariants:
//
//   - Answers and data go to standard output, everything about them to standard error.
//   - A call is approved only by a person's key press, by a command that names the approval, or by --approve-all.
//   - With --json standard output holds JSON only.
//   - Errors say what to do, and hold no key.
package cli
