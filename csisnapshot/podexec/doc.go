// Package podexec finds hooks in the annotations of pods, as Velero's users write them, and runs them in containers
// through the API server.
//
// # Annotations
//
// With the default prefix a hook that runs before the volumes of a pod are cut is described by
//
//	pre.hook.backup.velero.io/command     a JSON array of strings, or a plain string that is the program to run
//	pre.hook.backup.velero.io/container   the container; the pod's first one when absent
//	pre.hook.backup.velero.io/on-error    Fail (default) or Continue
//	pre.hook.backup.velero.io/timeout     a Go duration, 30s when absent
//
// and one that runs after by the same keys with post in place of pre. Without a command there is no hook. A value that
// cannot be understood, or a container that the pod does not have, is an error that names the pod and the annotation.
//
// # Running
//
// A command that no server has taken, because none listens or it is in trouble of its own, is sent again until ctx ends: a
// post hook must not be lost to a restart of the API server. It is sent once at most.
//
// A [Quiescer] runs a command over a WebSocket connection and, where the API server or a proxy does not support that,
// over SPDY. A command that fails is an [*ExitError] with the end of what it wrote to its standard error. Nothing is
// written to the command's standard input and its standard output is dropped. When ctx ends the connection is closed,
// which does not stop a command that runs already: a hook must be idempotent and bounded by itself. A connection that is
// lost before the command's end is an error, and then nobody knows what the command did. One kind is beyond a client's
// sight: a WebSocket connection that a proxy closes in order, without a status, looks like success.
//
// # Concurrency
//
// A Quiescer may be used from several goroutines at once. It starts none of its own; client-go's, for one connection, end
// with it, the heartbeat of a WebSocket connection that broke at its next beat, within 5 s.
package podexec
