package phase

// The phases of Velero's backups and restores. They are untyped constants, so they can be used as values of any string
// type without a conversion.
const (
	// New is the phase of work that nobody has started. An empty phase means the same to every [Machine] that starts in it.
	New = "New"
	// FailedValidation is terminal: the request was wrong and nothing was processed.
	FailedValidation = "FailedValidation"
	// InProgress is the phase in which items are processed.
	InProgress = "InProgress"
	// WaitingForPluginOperations is the phase in which every item is processed and asynchronous operations still run.
	WaitingForPluginOperations = "WaitingForPluginOperations"
	// WaitingForPluginOperationsPartiallyFailed is the same after a failure was recorded.
	WaitingForPluginOperationsPartiallyFailed = "WaitingForPluginOperationsPartiallyFailed"
	// Finalizing is the phase of the last steps, when no operation runs any more.
	Finalizing = "Finalizing"
	// FinalizingPartiallyFailed is the same after a failure was recorded.
	FinalizingPartiallyFailed = "FinalizingPartiallyFailed"
	// Completed is terminal: everything that was asked for was done.
	Completed = "Completed"
	// PartiallyFailed is terminal: something was done and something failed.
	PartiallyFailed = "PartiallyFailed"
	// Failed is terminal: a fatal error, or on Velero's own phases a cancel (its reason is then [ReasonCanceled]).
	Failed = "Failed"
	// Deleting is the phase of a backup that is being deleted. Whoever deletes sets it; no machine moves there.
	Deleting = "Deleting"
)

// Phases that are in no ready-made machine; they are here for extensions (see [Machine.Extend]).
const (
	// Queued is the phase of accepted work that waits for its turn.
	Queued = "Queued"
	// ReadyToStart is the phase of work whose turn has come.
	ReadyToStart = "ReadyToStart"
	// Canceled is terminal: someone asked for the work to end. Velero's resources do not know it.
	Canceled = "Canceled"
)
