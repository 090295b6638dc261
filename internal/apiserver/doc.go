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
// Built-in kinds are decoded into their Go types, so unknown fields are dropped, told of or refused (fieldValidation) and wrong
// types are refused, but their spec is neither defaulted nor validated; metadata is validated as the real server does. Custom
// kinds made by [Options] keep any field; those made by a CustomResourceDefinition follow its schema as package apischema says,
// which leaves out rules in CEL. Their conversion is None, whatever the definition says, all versions have the subresources
// of any, and scale is no subresource.
//
// The namespace controller's and the definition controller's work is done at once, as part of the request that calls for it;
// all other controllers are absent: deleted pods on a node and objects with the finalizers orphan and foregroundDeletion stay
// until a client acts as kubelet and as garbage collector. Nothing adds or removes the protection finalizers of claims and
// volumes. Events of events.k8s.io are not served.
//
// Users are those of the impersonation headers, which anybody may send; without one everything is allowed. Roles do not
// aggregate, and a user may hand out rights that it lacks. There is no admission but that of namespaces.
//
// Answers are JSON; a request that takes only protobuf, CBOR or YAML gets 406. Server-side apply gets 415, and metadata has no
// managedFields. Tables have the columns name and age. OpenAPI documents are not served. A command in a pod (pods/exec) would
// need a connection, which an answer of an http.RoundTripper is not, so it is refused with 400 as a request without an upgrade
// is, after the check of rights and of the pod. A list of a resourceVersion to come is answered with 504 at once, not after
// three seconds.
//
// # Concurrency
//
// A [Server] is safe for concurrent use. Its lock is held for work in memory only, never while a response is read, a file
// is written or a watch waits.
package apiserver
