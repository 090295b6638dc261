package volumeinfo

import (
	"errors"
	"fmt"
)

var (
	// ErrMalformed says that a file of records cannot be read: not gzip, cut short, not JSON, or not a list of records.
	// When one record is at fault, the error is also an [EntryError].
	ErrMalformed = errors.New("malformed volume info")
	// ErrTooLarge says that a file holds more bytes, once decompressed, or more records than the limits allow.
	ErrTooLarge = errors.New("volume info too large")
	// ErrNotRestorable says that a record must not be used to restore its volume.
	ErrNotRestorable = errors.New("not restorable")
)

// EntryError names the record of a file that cannot be read. It is [ErrMalformed].
type EntryError struct {
	// Index is the record's place in the file, from zero.
	Index int
	// Err is what is wrong with it.
	Err error
}

// Error implements error.
func (e *EntryError) Error() string { return fmt.Sprintf("record %d: %v", e.Index, e.Err) }

// Unwrap returns what is wrong with the record.
func (e *EntryError) Unwrap() error { return e.Err }

// Is reports whether target is [ErrMalformed].
func (e *EntryError) Is(target error) bool { return target == ErrMalformed }
