package operations

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
)

// Slot is one document of a [Store], of whatever content. It is the Document that the other packages of this module
// ask for. It remembers the version it has read or written, so that two writers of one document do not overwrite each
// other unseen. It is safe for concurrent use; calls wait for each other, under ctx.
type Slot struct {
	store Store
	name  string

	turn    chan struct{} // capacity one; whoever has put a value in owns the fields below
	known   bool          // version is what the store held last
	version string        // empty: no document
	pending []byte        // content of a write of which the outcome is not known
	// void are the last contents whose write was found not to be done: one that arrives late is no other writer's.
	void []digest
}

// NewSlot returns the document of that name. It reads nothing yet. Without a store, or with an empty name, every Load and
// Save is an error that says so.
func NewSlot(store Store, name string) *Slot {
	return &Slot{store: store, name: name, turn: make(chan struct{}, 1)}
}

// Load returns the document; nil, nil when there is none. It always reads the store, and accepts what it finds as the
// document that the next Save replaces.
func (s *Slot) Load(ctx context.Context) ([]byte, error) {
	if err := s.validate(); err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	if err := s.lock(ctx); err != nil {
		return nil, fmt.Errorf("load %s: %w", s.name, err)
	}
	defer s.unlock()
	data, version, err := s.read(ctx)
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	s.accept(version)
	return data, nil
}

// Save replaces the document; it is durable when Save returns nil. A document that somebody else has written since this
// Slot's last Load or Save is not overwritten: [ErrConflict], unless it is identical, which is success. A Slot that has
// neither loaded nor saved yet first looks what there is, and replaces that. [ErrUnknownOutcome] says that it could not
// be found out whether the document was written; the next Save finds out first.
func (s *Slot) Save(ctx context.Context, data []byte) error {
	if err := s.validate(); err != nil {
		return fmt.Errorf("save: %w", err)
	}
	if err := s.lock(ctx); err != nil {
		return fmt.Errorf("save %s: %w", s.name, err)
	}
	defer s.unlock()
	if err := s.save(ctx, data); err != nil {
		return fmt.Errorf("save: %w", err)
	}
	return nil
}

func (s *Slot) save(ctx context.Context, data []byte) error {
	done, err := s.settle(ctx, data)
	if done || err != nil {
		return err
	}
	for late := false; ; late = true {
		version, err := write(ctx, s.store, s.name, data, s.version)
		if err == nil {
			s.accept(version)
			return nil
		}
		if !errors.Is(err, ErrConflict) {
			s.pending = append([]byte{}, data...)
			if !errors.Is(err, ErrUnknownOutcome) {
				return err
			}
		}
		found, version, rerr := s.read(ctx)
		switch {
		case rerr != nil:
			return errors.Join(err, rerr)
		case version != "" && bytes.Equal(found, data):
			s.accept(version)
			return nil
		case late || !errors.Is(err, ErrConflict) || !s.isLate(found, version):
			return err
		}
		s.version = version
	}
}

// settle finds out what the store holds when that is not known. It reports done when that is data already.
func (s *Slot) settle(ctx context.Context, data []byte) (done bool, err error) {
	if s.known && s.pending == nil {
		return false, nil
	}
	found, version, err := s.read(ctx)
	if err != nil {
		return false, err
	}
	same := version != "" && bytes.Equal(found, data)
	ours := s.pending != nil && version != "" && bytes.Equal(found, s.pending)
	switch {
	case same, ours, !s.known:
		s.accept(version)
		return same, nil
	case version == s.version, s.isLate(found, version):
		s.giveUp(version)
		return false, nil
	}
	return false, fmt.Errorf("%s: %w: it was changed by another writer", s.name, ErrConflict)
}

// isLate reports whether the document is one whose write was found not to be done.
func (s *Slot) isLate(data []byte, version string) bool {
	return version != "" && slices.Contains(s.void, sha256.Sum256(data))
}

// giveUp remembers the write of unknown outcome as one that was not done, but may be yet.
func (s *Slot) giveUp(version string) {
	if d := digest(sha256.Sum256(s.pending)); !slices.Contains(s.void, d) {
		s.void = append(s.void[max(0, len(s.void)-maxVoid+1):], d)
	}
	s.version, s.pending = version, nil
}

// read returns what the store holds; an absent document has no version.
func (s *Slot) read(ctx context.Context) (data []byte, version string, err error) {
	data, version, err = read(ctx, s.store, s.name)
	if errors.Is(err, ErrNotFound) {
		return nil, "", nil
	}
	return data, version, err
}

// accept takes over what is known to be there, by its writer's own word or by having been read.
func (s *Slot) accept(version string) {
	s.known, s.version, s.pending, s.void = true, version, nil, nil
}

// validate returns what makes the slot unusable.
func (s *Slot) validate() error {
	switch {
	case s == nil:
		return errors.New("the slot is nil")
	case s.turn == nil:
		return errors.New("the slot was not made by NewSlot")
	case isNil(s.store) && s.name == "":
		return errors.New("the slot has neither a store nor a name")
	case isNil(s.store):
		return fmt.Errorf("slot %q: the store is nil", s.name)
	case s.name == "":
		return fmt.Errorf("slot: %w: the document name is empty", ErrMalformed)
	}
	return nil
}

func (s *Slot) lock(ctx context.Context) error { return takeTurn(ctx, s.turn) }
func (s *Slot) unlock()                        { <-s.turn }

// takeTurn puts a value into a channel of capacity one, or returns why ctx ended.
func takeTurn(ctx context.Context, turn chan struct{}) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for turn: %w", context.Cause(ctx))
	}
}
