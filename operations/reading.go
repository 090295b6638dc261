package operations

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/types"
)

// usualEntry is about how long the text of an entry is.
const usualEntry = 512

// reading is one walk over the text of a file: encoding/json reads an entry, then the text that it has accepted is looked through for
// unknown keys.
type reading struct {
	form Form
	key  Key
	text []byte
	// lenient, when set, is asked what to do about an entry with a fault: nil goes on without it.
	lenient func(Fault) error

	list List
	seen map[string]int // entries by operation ID
}

// all reads the whole document.
func (r *reading) all() error {
	r.seen = make(map[string]int, len(r.text)/usualEntry)
	r.list.ops = make([]*Operation, 0, len(r.text)/usualEntry)
	if err := r.entries(); err != nil {
		return err
	}
	if r.lenient == nil && len(r.list.ops) > unindexed {
		r.list.index = r.seen // no entry was left out, so positions in the document are those in the list
	}
	r.list.reindex()
	return nil
}

// entries reads all entries, or those before the first fault.
func (r *reading) entries() error {
	dec := json.NewDecoder(bytes.NewReader(r.text))
	switch open, err := dec.Token(); {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	case open == nil: // null
		return atEnd(dec)
	case open != json.Delim('['):
		return fmt.Errorf("%w: want a JSON array, have %v", ErrMalformed, open)
	}
	for i := 0; dec.More(); i++ {
		start := dec.InputOffset()
		op, uid, err := r.form.decodeEntry(dec.Decode)
		if _, bad := errors.AsType[*json.SyntaxError](err); bad || errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("entry %d: %w: %w", i, ErrMalformed, err)
		}
		if err == nil {
			err = r.form.keepUnknown(op, bytes.TrimLeft(r.text[start:dec.InputOffset()], ", \t\r\n"))
		}
		if err := r.take(i, op, uid, err); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil { // the closing bracket
		return fmt.Errorf("%w: after entry %d: %w", ErrMalformed, len(r.list.ops)-1, err)
	}
	return atEnd(dec)
}

// take takes entry i, or the error that reading it gave, into the list.
func (r *reading) take(i int, op *Operation, uid types.UID, err error) error {
	if err == nil {
		err = r.accept(i, op, uid)
	} else {
		err = fmt.Errorf("entry %d, operation %q: %w: %w", i, op.ID, ErrMalformed, err)
	}
	if err != nil && r.lenient != nil && !errors.Is(err, ErrForeignRecord) {
		return r.lenient(Fault{Entry: i, ID: op.ID, Err: err})
	}
	return err
}

// accept checks an entry that could be decoded and appends it.
func (r *reading) accept(i int, op *Operation, uid types.UID) error {
	op.Status.settle()
	if err := op.check(); err != nil {
		return fmt.Errorf("entry %d: %w", i, err)
	}
	if err := foreign(r.key, uid); err != nil {
		return fmt.Errorf("entry %d, operation %q: %w", i, op.ID, err)
	}
	if first, twice := r.seen[op.ID]; twice {
		return fmt.Errorf("entries %d and %d, operation %q: %w: %w", first, i, op.ID, ErrMalformed, ErrDuplicate)
	}
	r.seen[op.ID] = i
	r.list.ops = append(r.list.ops, op)
	return nil
}

// decodeEntry reads one entry with the given function. The operation is never nil.
func (f Form) decodeEntry(decode func(any) error) (*Operation, types.UID, error) {
	if f == RestoreForm {
		var e restoreEntry
		err := decode(&e)
		op, uid := e.operation()
		return op, uid, err
	}
	var e backupEntry
	err := decode(&e)
	op, uid := e.operation()
	return op, uid, err
}

// atEnd returns an error unless nothing but white space is left.
func atEnd(dec *json.Decoder) error {
	switch more, err := dec.Token(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return fmt.Errorf("%w: text after the array: %w", ErrMalformed, err)
	default:
		return fmt.Errorf("%w: text after the array: %v", ErrMalformed, more)
	}
}
