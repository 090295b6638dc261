package phase

// Backup returns the machine of Velero's backups.
//
// The work passes New, InProgress, a waiting phase if operations run, a finalizing phase, and ends. A failure moves it to
// the partially-failed phases, which never lead back. A cancel ends as Failed with [ReasonCanceled], because Velero's
// resource definition has no Canceled. Deleting is known as a terminal phase that somebody else sets.
func Backup[P ~string]() *Machine[P] {
	specs := append(veleroSpecs[P](), Spec[P]{Phase: Deleting, Class: ClassTerminal, External: true})
	return compile(specs, veleroTransitions[P]())
}

// Restore returns the machine of Velero's restores: that of [Backup] without Deleting.
func Restore[P ~string]() *Machine[P] {
	return compile(veleroSpecs[P](), veleroTransitions[P]())
}

func veleroSpecs[P ~string]() []Spec[P] {
	return []Spec[P]{
		{Phase: New, Class: ClassReady},
		{Phase: InProgress, Class: ClassWorking},
		{Phase: WaitingForPluginOperations, Class: ClassWaiting},
		{Phase: WaitingForPluginOperationsPartiallyFailed, Class: ClassWaiting, Failing: true},
		{Phase: Finalizing, Class: ClassFinalizing},
		{Phase: FinalizingPartiallyFailed, Class: ClassFinalizing, Failing: true},
		{Phase: Completed, Class: ClassTerminal},
		{Phase: PartiallyFailed, Class: ClassTerminal, Failing: true},
		{Phase: Failed, Class: ClassTerminal, Failing: true},
		{Phase: FailedValidation, Class: ClassTerminal, Failing: true},
	}
}

// veleroTransitions: EventFatal and EventCancel lead to the waiting phase, not straight to finalizing, because whoever
// raises them need not know whether operations run; with none the next Outcome moves on.
func veleroTransitions[P ~string]() []Transition[P] {
	const (
		waiting         = WaitingForPluginOperations
		waitingFailed   = WaitingForPluginOperationsPartiallyFailed
		finalizingFault = FinalizingPartiallyFailed
	)
	return []Transition[P]{
		{New, EventStart, InProgress},
		{New, EventInvalid, FailedValidation},
		{New, EventFatal, Failed},
		{New, EventCancel, Failed},

		{InProgress, EventWait, waiting},
		{InProgress, EventWaitPartiallyFailed, waitingFailed},
		{InProgress, EventFinalize, Finalizing},
		{InProgress, EventFinalizePartiallyFailed, finalizingFault},
		{InProgress, EventFatal, waitingFailed},
		{InProgress, EventCancel, waitingFailed},

		{waiting, EventWaitPartiallyFailed, waitingFailed},
		{waiting, EventFinalize, Finalizing},
		{waiting, EventFinalizePartiallyFailed, finalizingFault},
		{waiting, EventFatal, waitingFailed},
		{waiting, EventCancel, waitingFailed},

		{waitingFailed, EventFinalizePartiallyFailed, finalizingFault},
		{waitingFailed, EventFatal, waitingFailed},
		{waitingFailed, EventCancel, waitingFailed},

		{Finalizing, EventCompleted, Completed},
		{Finalizing, EventPartiallyFailed, PartiallyFailed},
		{Finalizing, EventFailed, Failed},
		{Finalizing, EventCanceled, Failed},
		{Finalizing, EventFinalizePartiallyFailed, finalizingFault},
		{Finalizing, EventFatal, finalizingFault},
		{Finalizing, EventCancel, finalizingFault},

		{finalizingFault, EventPartiallyFailed, PartiallyFailed},
		{finalizingFault, EventFailed, Failed},
		{finalizingFault, EventCanceled, Failed},
		{finalizingFault, EventFatal, finalizingFault},
		{finalizingFault, EventCancel, finalizingFault},
	}
}

// CancellableBackup returns the machine of [Backup] in which a cancel ends as [Canceled], for resources that know that
// phase. Velero's do not.
func CancellableBackup[P ~string]() *Machine[P] {
	specs := append(veleroSpecs[P](), Spec[P]{Phase: Deleting, Class: ClassTerminal, External: true})
	return compile(cancellable(specs, veleroTransitions[P]()))
}

// CancellableRestore returns the machine of [Restore] in which a cancel ends as [Canceled].
func CancellableRestore[P ~string]() *Machine[P] {
	return compile(cancellable(veleroSpecs[P](), veleroTransitions[P]()))
}

// cancellable leads to Canceled what ends by a cancel.
func cancellable[P ~string](specs []Spec[P], rows []Transition[P]) ([]Spec[P], []Transition[P]) {
	for i, r := range rows {
		if r.To == Failed && (r.Event == EventCancel || r.Event == EventCanceled) {
			rows[i].To = Canceled
		}
	}
	return append(specs, Spec[P]{Phase: Canceled, Class: ClassTerminal, Failing: true}), rows
}
