// Package backuptest is a Kubernetes cluster for tests of backup tools: an API server in memory, reached by the real
// clients through [Cluster.Config], with a fake storage driver and snapshot controller, objects to fill it and faults to
// break it. It needs no socket, no binary and no testing package, and works inside testing/synctest bubbles, so that an
// hour of waiting takes a millisecond.
//
//	cluster := backuptest.New(t, backuptest.Options{Objects: backuptest.Objects(...)})
//	core := kubernetes.NewForConfigOrDie(cluster.Config())
//
// # The server
//
// Objects have UIDs, generations and resourceVersions; a stale update is a Conflict; deletion honours finalizers and
// preconditions; status is a subresource; lists are paged and selected by labels and the usual fields; a watch from a
// resourceVersion misses nothing; JSON, merge and, for built-in kinds, strategic merge patches work, server-side apply
// answers 415. Metadata is validated; a spec is neither defaulted nor validated. Nobody needs permission for anything, no
// controller runs but those you start, and deleted pods go at once.
//
// # Faults
//
// [Cluster.Fault] sets trouble for chosen requests: errors, latency, hanging, answers that get lost after the work was
// done, watches that end, expire, lose events or fall silent. Requests are counted where they leave the client
// ([Cluster.Requests]), so a client's own retries are counted too.
//
// # Errors
//
// What the server answers are Kubernetes errors, as from a real one. Errors of this package's own functions name the
// option, object, document or file at fault.
//
// # Concurrency
//
// A [Cluster] is safe for concurrent use. It starts no goroutine. A cluster that is used inside a synctest bubble must be
// made inside it.
package backuptest
