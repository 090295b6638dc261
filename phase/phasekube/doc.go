// Package phasekube keeps a phase in a Kubernetes object through client-go's dynamic client: in any custom resource with
// [New], in a ConfigMap with [NewConfigMap]. An [Object] is a phase.Object, to be given to phase.NewApplier.
//
// [Object.Preflight] says before the first write whether the server will take it. A [Lease] makes one of several processes
// the one that works, and is the phase.Liveness for phase.Applier.Recover:
//
//	object := phasekube.New[Phase](client, gvr, namespace, name, opts)
//	report, err := object.Preflight(ctx, machine)  // once, at start-up
//	lease, err := phasekube.NewLease(core.CoordinationV1(), namespace, "backup-operator", phasekube.LeaseOptions{})
//	err = lease.Hold(ctx, identity, func(ctx context.Context) error {
//		recovery, err := applier.Recover(ctx, lease) // for every object
//		…
//	})
//
// # Guarantees
//
//   - A write is one merge patch of the fields of [Fields] with the object's resourceVersion: nothing else of the object is
//     touched, and a concurrent change of it is a conflict. The patch is validated strictly by the server, so that a field
//     which the resource does not have is refused instead of dropped. Conditions come in the same patch.
//   - A phase that the server drops all the same, because the status is a subresource, is found out: the write is
//     phase.ErrInvalid when the phase does not come back.
//   - An answer that got lost is phase.ErrUnknownOutcome, never a failure; the Applier reads before it goes on.
//   - The context of work under a Lease ends before another process can hold that Lease, also where renewals are slow or
//     hang; client-go's election alone does not promise that. Clocks of different machines are never compared. Writes are
//     fenced beside that, by the object's version; what is not written to the API server, such as hooks in pods, is fenced
//     by nothing but the Lease.
//
// # Errors
//
// Errors are those of phase.Object, and wrap the API server's. Too many requests (with Retry-After), Unauthorized, a refused
// connection, and for reads every server error and timeout are phase.Transient. For writes a server error or a timeout is
// phase.ErrUnknownOutcome. Conflict is phase.ErrConflict. Invalid and BadRequest are phase.ErrInvalid. NotFound is
// phase.ErrNotFound if it names an object, phase.ErrMissingAPI if it does not or if only the subresource or verb is missing. Forbidden
// is phase.ErrForbidden, phase.ErrNamespaceTerminating or phase.ErrQuotaExceeded. Faulty options are phase.ErrInvalid from
// every call. [PreflightError], [ErrLeaseLost] and [ErrAbandoned] are this package's own.
//
// # Permissions
//
// The verb get on the resource, and patch on it, or on its status subresource with Options.StatusSubresource. For
// Object.Preflight get on the resource's customresourcedefinition, without which the report says NotChecked. For Lease.Hold
// get, create and update on leases, in one namespace; for Lease.Heartbeat and Lease.Read get alone. docs/rbac/phasekube.yaml
// has them as roles.
//
// # Concurrency
//
// An Object keeps nothing between calls; a Lease keeps what it last saw. Both are safe for concurrent use. Only Lease.Hold
// starts goroutines, and all have ended when it returns, but for work that it left behind as ErrAbandoned says.
package phasekube
