// Package httpapi serves the run API over HTTP.
//
// It owns the way of a request to the engine and back: who asks and what their key permits, strict reading of bodies,
// the one shape of errors, paging, and the event stream. It owns no run logic; tenants are the engine's to check.
//
// Invariants:
//
//   - Every answer that is not a success is an api.Problem with a code of the list, also for unknown paths, wrong
//     methods and panics.
//   - Every path but /healthz asks for a key, unless authentication is switched off; then only connections that come
//     in over loopback, and requests from inside the process, are served.
//   - Every request passes the host check and the cross-origin check; there are no CORS headers.
//   - A body is read up to its limit, and decoded only if every member is known and there once.
//   - A write that arrived whole is carried out even when its client goes away.
//   - An event stream reads the log by cursor: it holds no events, skips nobody and ends after a terminal event.
package httpapi
