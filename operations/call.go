package operations

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
)

// PanicError is the error that stands for a panic of the user's code: an action, a function given to [Map.Update], a
// [Store].
type PanicError struct {
	// Value is what was passed to panic, Stack where.
	Value any
	Stack []byte
}

// Error implements error; it does not hold the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value when it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// contain calls fn and returns its panic as an error.
func contain(fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return fn()
}

// read reads a document; a panic of the store is an error.
func read(ctx context.Context, s Store, name string) (data []byte, version string, err error) {
	err = contain(func() (err error) {
		data, version, err = s.Read(ctx, name)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	if version == "" {
		return nil, "", fmt.Errorf("read %s: the store returned no version", name)
	}
	return data, version, nil
}

// write writes a document; a panic of the store is an error. An error of which the store does not say what it means,
// given while ctx had ended, is one without an answer.
func write(ctx context.Context, s Store, name string, data []byte, old string) (version string, err error) {
	err = contain(func() (err error) {
		version, err = s.Write(ctx, name, data, old)
		return err
	})
	switch {
	case err == nil && version == "":
		return "", fmt.Errorf("write %s: %w: the store returned no version", name, ErrUnknownOutcome)
	case err == nil:
		return version, nil
	case errors.Is(err, ErrConflict), errors.Is(err, ErrUnknownOutcome):
		return "", err
	}
	_, panicked := errors.AsType[*PanicError](err)
	if ended := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded); panicked || ended || ctx.Err() != nil {
		return "", fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
	}
	return "", err
}

// remove removes a document; a panic of the store is an error, and a store that cannot is one too.
func remove(ctx context.Context, s Store, name, old string) error {
	r, ok := s.(Remover)
	if !ok {
		return fmt.Errorf("remove %s: %w by this store", name, errors.ErrUnsupported)
	}
	return contain(func() error { return r.Remove(ctx, name, old) })
}

// capabilities returns what a store promises; one that panics promises nothing.
func capabilities(s Store) (c Capabilities) {
	if err := contain(func() error { c = s.Capabilities(); return nil }); err != nil {
		return Capabilities{}
	}
	return c
}

// isNil reports whether there is no store: none was given, or one of this package's that its constructor did not make.
func isNil(s Store) bool {
	switch s := s.(type) {
	case nil:
		return true
	case *FileStore:
		return s == nil || s.fs == nil
	case *MemoryStore:
		return s == nil
	case *WriteOnceStore:
		return s == nil || s.working == nil
	}
	return false
}
