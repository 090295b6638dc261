package csisnapshot

// Progress is how far a Cut has come, in counts. Every count but FrozenPods only grows.
type Progress struct {
	// Volumes are all volumes of the plan's batches. Cut and Failed are how many of them have ended, so that a Cut has come
	// to (Cut+Failed)/Volumes; Created have a snapshot, made now or found; PickedUp are those on which the
	// snapshot-controller, or the driver, has been seen to work.
	Volumes, Created, PickedUp, Cut, Failed int
	// Batches are all batches, EndedBatches those of which nothing is left to do.
	Batches, EndedBatches int
	// HookedPods are all pods that are to be frozen, FrozenPods those that are now, ThawedPods those that were.
	HookedPods, FrozenPods, ThawedPods int
}

// Done is the part of the volumes that have ended, from 0 to 1; 1 when there are none.
func (p Progress) Done() float64 {
	if p.Volumes == 0 {
		return 1
	}
	return float64(p.Cut+p.Failed) / float64(p.Volumes)
}

// total is the progress of a run that has not begun.
func (r *run) total() Progress {
	p := Progress{Volumes: len(r.byRef), Batches: len(r.batches)}
	for _, b := range r.batches {
		p.HookedPods += len(b.hookedPods())
	}
	return p
}

// proceed changes the counts and tells the observer. The signal's mutex is held.
func (r *run) proceed(change func(*Progress)) {
	before := r.progress
	change(&r.progress)
	if r.progress != before {
		tell(r.events, r.s.opts.Observer.Progress, r.progress)
	}
}

// count is 1 for a step that was taken just now.
func count(now, before bool) int {
	if now && !before {
		return 1
	}
	return 0
}
