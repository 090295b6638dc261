// Package apiserver is a Kubernetes API server in memory, reached as an http.RoundTripper: no socket, no goroutine of its
// own, no clock but package time, so that real clients work on it inside a testing/synctest bubble.
//
// # Guarantees
//
//   - Every change gets a resourceVersion of its own, higher than all before it, whatever the resource.
//   - An answer to a write is sent after the write is visible to every reader and, with a file, on disk.
//   - A watch from a resourceVersion delivers every later change of its resource once and in order, however slow its
//     reader is, or says 410 Gone.
//   - Stored objects are immutable: what a client reads never changes under it.
//
// # What differs from a real server
//
// Built-in kinds are decoded into their Go types, so unknown fields are dropped and wrong types are refused, but their
// spec is neither defaulted nor validated; metadata is validated as the real server does. Custom kinds keep any field. A
// deleted pod does not linger for its grace period. No garbage collector follows owner references. Any client is allowed
// anything.
//
// # Concurrency
//
// A [Server] is safe for concurrent use. Its lock is held for work in memory only, never while a response is read, a file
// is written or a watch waits.
package apiserver
