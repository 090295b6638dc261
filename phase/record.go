package phase

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Document is a small piece of durable data; operations.NewSlot makes one in any of that package's stores, with a Save that
// is conditional. Implementations must be safe for concurrent use.
type Document interface {
	// Load returns the data; nil and no error if there is none.
	Load(ctx context.Context) ([]byte, error)
	// Save replaces the data; they are durable when it returns nil. A Save on a document that somebody else changed since
	// Load should fail: then two processes cannot overwrite each other's record.
	Save(ctx context.Context, data []byte) error
}

// NewDocumentRecord returns a [Record] kept in doc as versioned JSON, for the object with this UID. UID is required: it
// tells a new object from an old one of the same name; an empty one, and one that is not UTF-8, is reported by [NewApplier]
// and by every call. So that a new object of the name can begin at all, let the name of the document hold the UID too.
//
// Load returns [ErrForeignRecord] for another object's record and [ErrInvalid] for one that cannot be read or that another
// release wrote in a newer form. Save overwrites neither. It reads before it writes, and again after a write that
// failed, because the answer may be all that was lost: it returns nil if the change is there, [ErrConflict] if another
// one is, the document's error if the old one is, and [ErrUnknownOutcome] if that cannot be read. It is safe for
// concurrent use. Save returns [ErrInvalid], and writes nothing, for a change that Load would not return as it is: one
// without a time or a phase. In reason, message and owner it replaces what is not UTF-8.
func NewDocumentRecord[P ~string](doc Document, uid string) Record[P] {
	return &documentRecord[P]{doc: doc, uid: uid}
}

type documentRecord[P ~string] struct {
	doc Document
	uid string
}

func (r *documentRecord[P]) validate() error {
	var faults []error
	if r.doc == nil {
		faults = append(faults, fmt.Errorf("%w phase record: the document is nil", ErrInvalid))
	}
	if r.uid == "" {
		faults = append(faults, fmt.Errorf("%w phase record: the uid is empty", ErrInvalid))
	}
	if !utf8.ValidString(r.uid) {
		faults = append(faults, fmt.Errorf("%w phase record: the uid is not UTF-8: %q", ErrInvalid, r.uid))
	}
	return errors.Join(faults...)
}

func (r *documentRecord[P]) Load(ctx context.Context) (Change[P], bool, error) {
	if err := r.validate(); err != nil {
		return Change[P]{}, false, err
	}
	data, err := r.doc.Load(ctx)
	if err != nil {
		return Change[P]{}, false, fmt.Errorf("load phase record: %w", err)
	}
	if len(data) == 0 {
		return Change[P]{}, false, nil
	}
	c, err := decodeRecord[P](r.uid, data)
	if err != nil {
		return Change[P]{}, false, err
	}
	return c, true, nil
}

func (r *documentRecord[P]) Save(ctx context.Context, c Change[P]) error {
	if err := r.validate(); err != nil {
		return err
	}
	if c.UID != "" && c.UID != r.uid {
		return fmt.Errorf("save phase record: %w: the object's uid is %q, the record's %q", ErrForeignRecord, c.UID, r.uid)
	}
	c.UID = r.uid
	c.Reason, c.Message, c.Owner = text(c.Reason), text(c.Message), text(c.Owner)
	data, err := encodeRecord(r.uid, c)
	if err != nil {
		return err
	}
	if done, err := r.compare(ctx, c); done || err != nil {
		return err
	}
	failed := r.doc.Save(ctx, data)
	if failed == nil {
		return nil
	}
	failed = fmt.Errorf("save phase record: %w", failed)
	done, err := r.compare(ctx, c)
	switch {
	case err == nil && done:
		return nil
	case err == nil:
		return failed // the old record is there: nothing was written
	case errors.Is(err, ErrConflict), errors.Is(err, ErrForeignRecord), errors.Is(err, ErrInvalid):
		return err
	default:
		return fmt.Errorf("%w: %w; then %w", ErrUnknownOutcome, failed, err)
	}
}

// compare says whether c is already recorded; it is a conflict if c does not follow from what is.
func (r *documentRecord[P]) compare(ctx context.Context, c Change[P]) (done bool, err error) {
	stored, ok, err := r.Load(ctx)
	switch {
	case err != nil:
		return false, err
	case !ok:
		return false, nil
	case sameChange(stored, c):
		return true, nil
	case !c.Follows(stored):
		return false, &ConflictError{
			Expected: string(c.From), Wanted: string(c.To), Found: string(stored.To), Owner: stored.Owner,
		}
	default:
		return false, nil
	}
}

func sameChange[P ~string](a, b Change[P]) bool {
	return a.UID == b.UID && a.From == b.From && a.To == b.To && a.Event == b.Event && a.Owner == b.Owner &&
		a.Reason == b.Reason && a.Message == b.Message && a.At.Equal(b.At)
}
