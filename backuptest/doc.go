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
// Objects have UIDs, generations and resourceVersions; a stale update is a Conflict; deletion honours finalizers, preconditions,
// propagation policies and the grace period of pods; status is a subresource; lists are paged and selected by labels and the
// usual fields; a watch from a resourceVersion misses nothing; JSON, merge and, for built-in kinds, strategic merge patches work,
// server-side apply answers 415. Metadata is validated, unknown fields are told of or refused as fieldValidation says; a
// built-in kind's spec is neither defaulted nor validated. A CustomResourceDefinition, created or loaded, is served with its
// schema; [Options] has a shorter way. [Cluster.Config] may do anything, [Cluster.ConfigFor] what its rules and roles
// ([Cluster.Bind]) allow. The page docs/api-server.md has the rest.
//
// No controller runs but those you start: [RunSnapshots], a [GarbageCollector] for owner references, a [Kubelet] that ends
// deleted pods. Namespaces and definitions need none to end.
//
// # Trouble
//
// [Cluster.Fault] sets trouble for chosen requests: errors, latency, hanging, answers that get lost after the work was
// done or break off, stale reads, watches that end, expire, lose events or fall silent. [Cluster.Restart] is a restart of
// the server. [NewStore] and [NewHooks] have trouble for stores of documents and for hooks in pods.
//
// [EachCrash] kills a program after each of its writes and runs it again: docs/testing.md shows how.
//
// # What happened
//
// [Cluster.Requests] counts requests where they leave the client, so a client's own retries are counted too. [Cluster.Log]
// has them in order; its checks say what must not be among them.
//
// # Errors
//
// What the server answers are Kubernetes errors, as from a real one. Errors of this package's own functions name the
// option, object, document or file at fault.
//
// # Concurrency
//
// A [Cluster] is safe for concurrent use. It starts no goroutine, nor does anything here but
// [RunSnapshots] and the Run methods. A cluster that is used inside a synctest bubble must be
// made inside it.
package backuptest
