package backuptest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	storeRead  = "read"
	storeWrite = "write"
)

// StoreAction is what a [StoreFault] does to a call.
type StoreAction uint8

const (
	// StorePass lets the call pass, after the fault's Latency; with an Err it means StoreFail. It is the zero action.
	StorePass StoreAction = iota
	// StoreFail returns the error without doing anything.
	StoreFail
	// StoreLoseAnswer does the call and returns the error.
	StoreLoseAnswer
	// StoreHang does nothing and returns when the context ends.
	StoreHang
	// StoreHangAnswer does the call and returns when the context ends.
	StoreHangAnswer
	// StoreTear does a read and returns half of the document. Writes pass.
	StoreTear
)

// StoreFault says which calls of a [Store] meet trouble, and what kind. The zero StoreFault matches every call and does
// nothing.
type StoreFault struct {
	// Op is "read" or "write". Empty matches both.
	Op string
	// Name is the document's. Empty matches any.
	Name string
	// Nth is the first of the matching calls that meets the fault, counted from 1 since the fault was set. Zero is 1.
	Nth int
	// Times is how many matching calls, from the Nth on, meet the fault. Zero means all if Nth is zero, else one.
	Times int

	// Action is what happens to the call.
	Action StoreAction
	// Latency is how long the call waits before that, or until its context ends.
	Latency time.Duration
	// Err is what the call returns, such as operations.ErrConflict or operations.ErrUnknownOutcome. Nil: [ErrStore].
	Err error
}

type setStoreFault struct {
	StoreFault

	err  error // what is wrong with it
	seen int
}

// Fault sets a fault. The first that is due for a call, in the order they were set, acts on it. remove takes it back; calls
// that it holds stay held. It may be called more than once. A fault that can do nothing, or not what it says, by an unknown op
// or action, a negative number or tearing a write, makes every call fail with an error that names the field.
func (s *Store[C]) Fault(f StoreFault) (remove func()) {
	wrong := f.wrong()
	if f.Action == StorePass && f.Err != nil {
		f.Action = StoreFail
	}
	if f.Err == nil {
		f.Err = ErrStore
	}
	if f.Times == 0 && f.Nth > 0 {
		f.Times = 1
	}
	f.Nth = max(f.Nth, 1)
	return s.shared.set(f, wrong)
}

func (f StoreFault) wrong() error {
	errs := []error{negative("Nth", f.Nth), negative("Times", f.Times), negative("Latency", f.Latency)}
	if f.Op != "" && f.Op != storeRead && f.Op != storeWrite {
		errs = append(errs, fmt.Errorf("field Op: %q is neither read nor write", f.Op))
	}
	if f.Action > StoreTear {
		errs = append(errs, fmt.Errorf("field Action: %d is unknown", f.Action))
	}
	if f.Action == StoreTear && f.Op == storeWrite {
		errs = append(errs, errors.New("field Action: it tears reads, and no writes"))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("set store fault: %w", err)
	}
	return nil
}

func (s *storeState) set(f StoreFault, wrong error) (remove func()) {
	own := &setStoreFault{StoreFault: f, err: wrong}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, own)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.faults = slices.DeleteFunc(s.faults, func(f *setStoreFault) bool { return f == own })
	}
}

func (s *storeState) due(call StoreCall) (StoreFault, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var due *setStoreFault
	for _, f := range s.faults {
		if f.err != nil {
			return StoreFault{}, f.err
		}
		if f.Op != "" && f.Op != call.Op || f.Name != "" && f.Name != call.Name {
			continue
		}
		f.seen++
		if due == nil && f.seen >= f.Nth && (f.Times == 0 || f.seen < f.Nth+f.Times) {
			due = f
		}
	}
	if due == nil {
		return StoreFault{}, nil
	}
	return due.StoreFault, nil
}

// meet does to the call what the fault that is due says. A call whose ctx has ended does not reach the store.
func (s *storeState) meet(ctx context.Context, call StoreCall, do func(StoreFault) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	f, err := s.due(call)
	if err != nil {
		return err
	}
	if err := wait(ctx, f.Latency); err != nil {
		return err
	}
	switch f.Action {
	case StoreFail:
		return f.Err
	case StoreLoseAnswer:
		if err := do(f); err != nil {
			return err
		}
		return f.Err
	case StoreHang:
		<-ctx.Done()
		return context.Cause(ctx)
	case StoreHangAnswer:
		if err := do(f); err != nil {
			return err
		}
		<-ctx.Done()
		return context.Cause(ctx)
	default:
		return do(f)
	}
}
