package csisnapshot

import (
	"time"
)

// State is what is known of one snapshot: the result of [Judge], and its memory for the next look.
type State struct {
	Result

	// End is nil while the wait goes on, else ErrNotFound, ErrReplaced, ErrDeleted or ErrFinal. It ends waits for stages
	// that the snapshot has not reached.
	End error
	// ErrorKind is KindSnapshot or KindContent, where LastError stood; empty if there was none.
	ErrorKind string
	// ErrorSince is when an error was first seen after the last progress; zero if none was.
	ErrorSince time.Time
	// ErrorRepeats counts different errors, by text or time, since the last progress.
	ErrorRepeats int
	// Paused is a time until which the classifier expects no progress; zero if it said nothing.
	Paused time.Time
	// ProgressAt is when the snapshot was picked up, begun, cut or ready, the last of these; zero before.
	ProgressAt time.Time
	// LastChange is when the objects were last seen to change; zero before the first look.
	LastChange time.Time

	snapshotVersion, contentVersion string
	errors                          [2]seenError // of the snapshot and of the content
	oldError                        time.Time    // newest error time seen up to the cut
}

// seenError tells one error of a status from another.
type seenError struct {
	text string
	time time.Time
}

// NewState is the state of a target that was not looked at yet.
func NewState(t Target) State {
	t = t.withDefaults()
	return State{Result: Result{Ref: t.Ref, UID: t.UID, Driver: t.Driver}}
}

// withDefaults fills in what the object tells.
func (t Target) withDefaults() Target {
	if t.Snapshot != nil {
		if t.Ref == (Ref{}) {
			t.Ref = t.Snapshot.Ref()
		}
		if t.UID == "" {
			t.UID = t.Snapshot.UID
		}
	}
	return t
}

// progress notes that a step was taken: errors before it are history.
func (s *State) progress(now time.Time) {
	s.ProgressAt = now
	s.ErrorSince, s.ErrorRepeats, s.Paused = time.Time{}, 0, time.Time{}
}

// note keeps an error for the report and counts it if it differs from those that stood before.
func (s *State) note(kind string, e *StatusError, now time.Time) {
	seen := seenError{text: e.text()}
	if e.Time != nil {
		seen.time = *e.Time
	}
	slot := 0
	if kind == KindContent {
		slot = 1
	}
	known := s.errors[0] == seen || s.errors[1] == seen
	s.errors[slot] = seen
	s.LastError, s.ErrorKind = seen.text, kind
	if s.ErrorSince.IsZero() {
		s.ErrorSince = now
	}
	if !known || s.ErrorRepeats == 0 {
		s.ErrorRepeats++
	}
}

// failure is the typed error of a wait for the stage that ended.
func (s State) failure(stage Stage, category error, diagnosis Diagnosis, cause error, now time.Time) *WaitError {
	return &WaitError{
		Ref: s.Ref, UID: s.UID, Driver: s.Driver, Stage: stage, Content: s.Content, Handle: s.Handle,
		ReadyToUse: s.ReadyToUse, LastError: s.LastError, ErrorKind: s.ErrorKind, Diagnosis: diagnosis,
		LastChange: s.LastChange, Ended: now, Category: category, Err: cause,
	}
}
