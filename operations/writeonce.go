package operations

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// Finisher is a [Store] that keeps a document whose content will not change any more apart. [Map.Complete] finishes the
// record of a key.
type Finisher interface {
	Store
	// Finish stores the finished document, for good and at most once. When there is one already it stores nothing: it
	// returns nil if same says that the content found says the same as data, and [ErrConflict] if not. A nil same
	// compares the bytes. [ErrUnknownOutcome] says that it is not known whether the document was written; finishing again
	// finds out.
	Finish(ctx context.Context, name string, data []byte, same func(found []byte) bool) error
}

// WriteOnceStore is a [Store] for places where a document must not be written twice: a bucket with object lock, a WORM
// share, a repository that accepts only creating. It is two stores: a working store takes every change, and the place
// itself gets the document once, when [Map.Complete] finishes it. It is safe for concurrent use.
//
// As long as the working store has a document, that is what is read. When it has none, because it was cleared, the
// finished one is read, and a change of it is [ErrCompleted].
type WriteOnceStore struct {
	working, final Store
}

var (
	_ Finisher = (*WriteOnceStore)(nil)
	_ Remover  = (*WriteOnceStore)(nil)
)

// NewWriteOnceStore returns a store that works in one store and finishes documents in another. It returns every fault of
// its arguments: one that is nil, and one store given twice, which would be written again and again where nothing may be
// written twice. Two stores of one place, such as two clients of one bucket, it cannot tell from any other two.
//
// A final store that does not check the condition of creating is read before it is written, which does not protect it from
// another process that finishes the same document at the same time.
func NewWriteOnceStore(working, final Store) (*WriteOnceStore, error) {
	var faults []error
	if isNil(working) {
		faults = append(faults, errors.New("the working store is nil"))
	}
	if isNil(final) {
		faults = append(faults, errors.New("the final store is nil"))
	}
	if len(faults) == 0 && sameStore(working, final) {
		faults = append(faults, errors.New("the working store and the final store are the same"))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("write-once store: %w", err)
	}
	return &WriteOnceStore{working: working, final: final}, nil
}

// sameStore reports whether both are one store, as far as their values tell: those that cannot be compared count as two.
func sameStore(a, b Store) bool {
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// errNotMade says that a store is nil or zero.
var errNotMade = errors.New("the store was not made by its constructor")

// finishedVersion stands before the version of a finished document, workingVersion before any other.
const (
	finishedVersion = "finished:"
	workingVersion  = "working:"
)

// Read implements [Store].
func (s *WriteOnceStore) Read(ctx context.Context, name string) (data []byte, version string, err error) {
	if isNil(s) {
		return nil, "", fmt.Errorf("read %s: %w", name, errNotMade)
	}
	data, version, err = read(ctx, s.working, name)
	if !errors.Is(err, ErrNotFound) {
		if err != nil {
			return nil, "", fmt.Errorf("working store: %w", err)
		}
		return data, workingVersion + version, nil
	}
	data, version, err = read(ctx, s.final, name)
	if err != nil {
		return nil, "", fmt.Errorf("final store: %w", err)
	}
	return data, finishedVersion + version, nil
}

// Write implements [Store] with the working store. A document that is finished and has left the working store cannot be
// changed: [ErrCompleted].
func (s *WriteOnceStore) Write(ctx context.Context, name string, data []byte, old string) (version string, err error) {
	if isNil(s) {
		return "", fmt.Errorf("write %s: %w", name, errNotMade)
	}
	base, replaces := strings.CutPrefix(old, workingVersion)
	if !replaces {
		if err := s.mayCreate(ctx, name, old); err != nil {
			return "", err
		}
		base = ""
	}
	version, err = write(ctx, s.working, name, data, base)
	if err != nil {
		return "", fmt.Errorf("working store: %w", err)
	}
	return workingVersion + version, nil
}

// mayCreate returns why there can be no new document in the working store.
func (s *WriteOnceStore) mayCreate(ctx context.Context, name, old string) error {
	_, version, err := read(ctx, s.final, name)
	switch {
	case errors.Is(err, ErrNotFound) && old == "":
		return nil
	case errors.Is(err, ErrNotFound), err == nil && old != finishedVersion+version:
		return fmt.Errorf("write %s: %w", name, ErrConflict)
	case err == nil:
		return fmt.Errorf("write %s: %w: the final store has the document", name, ErrCompleted)
	}
	return fmt.Errorf("final store: %w", err)
}

// Remove implements [Remover] with the working store: what was kept until it was finished. A finished document stays for
// good, and removing it is no error and does nothing.
func (s *WriteOnceStore) Remove(ctx context.Context, name, old string) error {
	if isNil(s) {
		return fmt.Errorf("remove %s: %w", name, errNotMade)
	}
	if strings.HasPrefix(old, finishedVersion) {
		return nil
	}
	if err := remove(ctx, s.working, name, strings.TrimPrefix(old, workingVersion)); err != nil {
		return fmt.Errorf("working store: %w", err)
	}
	return nil
}

// Capabilities implements [Store]: what the working store can.
func (s *WriteOnceStore) Capabilities() Capabilities {
	if isNil(s) {
		return Capabilities{}
	}
	return capabilities(s.working)
}

// Finish implements [Finisher].
func (s *WriteOnceStore) Finish(ctx context.Context, name string, data []byte, same func(found []byte) bool) error {
	if isNil(s) {
		return fmt.Errorf("finish %s: %w", name, errNotMade)
	}
	if same == nil {
		same = func(found []byte) bool { return bytes.Equal(found, data) }
	}
	if !capabilities(s.final).ConditionalCreate {
		if done, err := s.finished(ctx, name, same); done || err != nil {
			return err
		}
	}
	_, err := write(ctx, s.final, name, data, "")
	if err == nil {
		return nil
	}
	done, rerr := s.finished(ctx, name, same)
	switch {
	case done:
		return nil
	case errors.Is(rerr, ErrConflict):
		return rerr
	}
	return fmt.Errorf("finish %s: %w", name, errors.Join(err, rerr))
}

// finished reports whether the final store has the document; another one is [ErrConflict].
func (s *WriteOnceStore) finished(ctx context.Context, name string, same func(found []byte) bool) (bool, error) {
	found, _, err := read(ctx, s.final, name)
	switch {
	case errors.Is(err, ErrNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("final store: %w", err)
	}
	equal := false
	if err := contain(func() error { equal = same(found); return nil }); err != nil {
		return false, fmt.Errorf("finish %s: compare: %w", name, err)
	}
	if !equal {
		return false, fmt.Errorf("finish %s: %w: the final store has another document", name, ErrConflict)
	}
	return true, nil
}
