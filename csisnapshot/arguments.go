package csisnapshot

import (
	"errors"
	"fmt"
)

// made says whether New made the snapshotter; the error is for the caller of its methods.
func (s *Snapshotter) made() error {
	if s == nil || s.snaps == nil {
		return errors.New("the Snapshotter was not made by New")
	}
	return nil
}

// made says whether NewAction, or a Snapshotter that New made, made the action.
func (a *Action) made() error {
	if a == nil || a.client == nil {
		return errors.New("the Action was not made by NewAction, or its Snapshotter was not made by New")
	}
	return nil
}

// made says whether NewWaiter made the waiter.
func (w *Waiter) made() error {
	if w.client == nil {
		return errors.New("the Waiter was not made by NewWaiter")
	}
	return nil
}

// whole reports the fields of the reference that are empty.
func (r Ref) whole() error {
	var faults []error
	if r.Namespace == "" {
		faults = append(faults, errors.New("Ref.Namespace is empty"))
	}
	if r.Name == "" {
		faults = append(faults, errors.New("Ref.Name is empty"))
	}
	return errors.Join(faults...)
}

// validRefs names every reference that is not whole.
func validRefs(refs []Ref) error {
	var faults []error
	for i, ref := range refs {
		if err := ref.whole(); err != nil {
			faults = append(faults, fmt.Errorf("refs[%d] %q: %w", i, ref, err))
		}
	}
	return errors.Join(faults...)
}
