// Package phasekube keeps a phase in a Kubernetes object through client-go's dynamic client: in any custom resource with
// [New], in a ConfigMap with [NewConfigMap]. An [Object] is a phase.Object, to be given to phase.NewApplier.
//
// # Guarantees
//
//   - A write is one merge patch of the fields of [Fields] with the object's resourceVersion: nothing else of the object is
//     touched, and a concurrent change of it is a conflict. The patch is validated strictly by the server.
//   - A field that the server drops, because the resource definition does not have it or the status is a subresource, is
//     found out: the write is phase.ErrInvalid when the phase does not come back.
//   - An answer that got lost is phase.ErrUnknownOutcome, never a failure; the Applier reads before it goes on.
//
// # Errors
//
// Errors are those of phase.Object, and wrap the API server's. Too many requests (with Retry-After), Unauthorized, a refused
// connection, and for reads every server error and timeout are phase.Transient. For writes a server error or a timeout is
// phase.ErrUnknownOutcome. Conflict is phase.ErrConflict. Invalid and BadRequest are phase.ErrInvalid. NotFound is
// phase.ErrNotFound if it names an object, phase.ErrMissingAPI if it does not or if only the subresource is missing. Forbidden
// is phase.ErrForbidden, phase.ErrNamespaceTerminating or phase.ErrQuotaExceeded. Faulty options are phase.ErrInvalid from
// every call.
//
// # Permissions
//
// The verbs get and patch on the resource, and patch on its status subresource with Options.StatusSubresource.
//
// # Concurrency
//
// An Object keeps nothing between calls and is safe for concurrent use.
package phasekube
