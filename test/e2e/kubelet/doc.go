// Package kubelet is a kubelet for tests that runs no containers. It keeps the pods of one node as a kubelet does, so
// that a backup tool finds them running, and it answers the exec requests that the API server passes on to it: it runs
// nothing, writes down who asked for what, and ends the command as a script says.
//
// # Pods
//
// A pod that is bound to the node gets the status of a running pod: phase Running, ready, every container started, IP
// 127.0.0.1. The annotation [PhaseAnnotation] asks for Pending, Succeeded or Failed instead. A pod that is being deleted is
// deleted for good (grace period 0, this UID only), as a kubelet does when its containers have ended. A status is patched
// once; one that already says what it should is left alone. The watch goes on through restarts of the API server.
//
// # Exec
//
// [Server] serves /exec/NAMESPACE/POD/CONTAINER and /exec/NAMESPACE/POD/UID/CONTAINER over TLS to clients with a
// certificate of its client CA, over SPDY and over WebSocket (v5 and older channel protocols). Exit codes travel in the
// error stream, as from a kubelet. A pod or container that does not run here is refused. A command that reads its standard
// input or has a terminal is refused. A command goes on when its connection ends, as it does in a container, unless its
// [Script] says that it hangs.
//
// # Record
//
// Each exec is written to a file of JSON lines before its first byte of output and again before its answer is sent, one
// write a line: a record read after the answer holds the end, and a record read after the server was killed holds every
// command that had begun. A server goes on with the record of the one before it.
//
// # Permissions
//
// The user of [Options.Config] needs list, watch and delete on pods and patch on pods/status, in all namespaces. The API
// server's own kubelet client needs no permission: any certificate of the client CA will do.
//
// # Errors
//
// [New] joins all faults of its options, each naming the field. [Server.Run] returns what ended it; the end of its context
// is no error. [Client] methods return an error that holds the server's own text.
//
// # Concurrency
//
// [Server] and [Client] are safe for concurrent use. Only [Server.Run] starts goroutines, and it returns after they have,
// but for those that the streaming libraries leave to end by themselves within a second of a connection's end.
package kubelet
