// Package audit reads the audit log of a Kubernetes API server: who asked for what, how often, and with what answer.
//
// # The log
//
// A file of JSON lines at level Metadata or above, as --audit-log-path writes it, in blocking mode (the default): a request
// is then in the log before its client has the whole answer, so that what a client did can be counted as soon as it has
// ended. Rotation must be off: one file is read. Half a line at the end, which is being written or was left by a server
// that was killed, is left out.
//
// # Counting
//
// Requests are counted in the form of backuptest's Cluster.Requests: "create volumesnapshots", "update pods/status",
// "watch pods" and, where no resource is named, "get /apis". Each request that reached the server counts once, whatever
// its answer: one refused with 429 or 403 and its repetitions each count. A watch counts once, while it is open too,
// although it has two entries. An exec over WebSocket is a "get pods/exec", one over SPDY a "create pods/exec". Requests are
// those of the user who authenticated, also where it impersonates another.
//
// # Errors
//
// A file that cannot be read, a line that is no audit event, and a log that is shorter than it was at the mark, each naming
// the file. A file that does not exist yet is an empty log.
//
// # Concurrency
//
// A [Log] is safe for concurrent use, while the server writes too. Everything else is a pure function or a value.
package audit
