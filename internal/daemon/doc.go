// Package daemon puts the parts of a node together: configuration, store, models, sandbox, harnesses, engine, HTTP.
//
// It owns the wiring, the local socket in the state directory, and start and stop. It owns no run logic and no route.
// Both programs use it: harnessd serves a node, harness uses a daemon's node or opens one of its own in the process.
//
// Invariants:
//
//   - One process has the state directory. It listens on the socket in it, so that a program of the same user reaches
//     the node without a key; the folder's and the socket's modes keep others out.
//   - Runs execute only after Start. A node that is only opened reads and changes rows and executes nothing.
//   - Close leaves every open run in a state from which the next start goes on.
//   - No key occurs in a log line.
package daemon
