// Package harness runs coding-agent runtimes as an agent: sessions, turns, approvals, tools and portable lifecycle
// state over any runtime that an adapter drives.
//
// The package owns the adapter contract (Harness, AdapterSession, TurnControl, the stream parts), the Agent and its
// sessions, the turn driver that shapes what an adapter reports into the consumer's stream, and lifecycle state, whose
// JSON is the same as that of the TypeScript AI SDK. It does not own runtimes (the adapters do), the decision of calls
// (package control does) or the log (a Journal does).
//
// Invariants. A session has one turn at a time; session and turn states change only along the tables of state.go. A
// host tool runs only after its approval configuration, and the gate where there is one, allowed the call. A call is
// executed once: its result is stored when the turn is suspended before the result reached the adapter. Lifecycle data
// may hold secrets and never appears in an error.
package harness
