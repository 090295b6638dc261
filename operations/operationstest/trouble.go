package operationstest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/sheetanchor/sheetanchor/operations"
)

// trouble is what becomes of one call of a store.
type trouble uint8

const (
	fine        trouble = iota
	crashBefore         // the process ends instead of the call
	crashAfter          // the process ends before it learns of the answer
	loseBefore          // the call is not done, and there is no answer
	loseAfter           // the call is done, and there is no answer
	hang                // no answer until the context ends
)

// String is what is said of it.
func (t trouble) String() string {
	return [...]string{"nothing", "a crash before", "a crash after", "a loss before", "a loss of the answer of", "a hang of"}[t]
}

var (
	errCrashed  = errors.New("the process has crashed")
	errNoAnswer = fmt.Errorf("%w: the answer got lost", operations.ErrUnknownOutcome)
)

// troubled is a store as one process sees it.
type troubled struct {
	operations.Store

	// trouble says what becomes of call n, counted from 0 for each process. It is called under a lock. Nil: all are fine.
	trouble func(n int, verb, name string) trouble
	// hung, when set, is called when a call begins to hang.
	hung func()

	mu      sync.Mutex
	calls   int // begun
	reads   int
	met     bool // a trouble was met
	crashed bool
}

// next decides what becomes of the call that begins.
func (s *troubled) next(verb, name string) trouble {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.crashed {
		return crashBefore
	}
	t := fine
	if s.trouble != nil {
		t = s.trouble(s.calls, verb, name)
	}
	s.calls++
	if verb == "read" {
		s.reads++
	}
	s.met = s.met || t != fine
	s.crashed = t == crashBefore || t == crashAfter
	return t
}

func (s *troubled) count() (calls, reads int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls, s.reads
}

func (s *troubled) hasMet() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.met
}

// Read implements operations.Store.
func (s *troubled) Read(ctx context.Context, name string) (data []byte, version string, err error) {
	err = s.do(ctx, "read", name, func() error {
		data, version, err = s.Store.Read(ctx, name)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return data, version, nil
}

// Write implements operations.Store.
func (s *troubled) Write(ctx context.Context, name string, data []byte, old string) (version string, err error) {
	err = s.do(ctx, "write", name, func() error {
		version, err = s.Store.Write(ctx, name, data, old)
		return err
	})
	if err != nil {
		return "", err
	}
	return version, nil
}

// Finish implements operations.Finisher where the store below does; elsewhere there is nothing to finish.
func (s *troubled) Finish(ctx context.Context, name string, data []byte, same func([]byte) bool) error {
	below, ok := s.Store.(operations.Finisher)
	if !ok {
		return nil
	}
	return s.do(ctx, "finish", name, func() error { return below.Finish(ctx, name, data, same) })
}

func (s *troubled) do(ctx context.Context, verb, name string, call func() error) error {
	switch s.next(verb, name) {
	case crashBefore:
	case crashAfter:
		_ = call() // nobody learns of it
	case loseBefore:
		return errNoAnswer
	case loseAfter:
		_ = call() // nobody learns of it
		return errNoAnswer
	case fine:
		return call()
	case hang:
		if s.hung != nil {
			s.hung()
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return errCrashed
}
