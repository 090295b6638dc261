package operations

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/sheetanchor/sheetanchor/internal/gzipjson"
)

// Names of members that joinEntry and splitEntry handle apart.
const (
	ownKey       = "sheetanchor"
	resourceKey  = "resourceIdentifier"
	postItemsKey = "postOperationItems"
)

// Decode reads Velero's file of the key's owner. It returns [ErrForeignRecord] when the file, or any entry, belongs to
// an owner of another UID, [ErrTooLarge] when it holds more than [DefaultMaxBytes], and [ErrMalformed] for anything
// that is not such a file, naming the entry: entries without ID, two entries of one ID ([ErrDuplicate] too), values of
// the wrong type, text after the array. Unknown keys are kept. A file written by Velero with an empty list names no
// owner and belongs to whoever reads it.
func (f Form) Decode(key Key, data []byte) (List, error) {
	return f.decode(key, data, DefaultMaxBytes)
}

func (f Form) decode(key Key, data []byte, limit int64) (List, error) {
	if err := f.validate(); err != nil {
		return List{}, err
	}
	text, owner, err := unzip(data, limit)
	if err != nil {
		return List{}, err
	}
	if uid, ok := strings.CutPrefix(owner, ownerPrefix); ok {
		if err := foreign(key, types.UID(uid)); err != nil {
			return List{}, err
		}
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	switch open, err := dec.Token(); {
	case err != nil:
		return List{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	case open == nil: // null
		return List{}, atEnd(dec)
	case open != json.Delim('['):
		return List{}, fmt.Errorf("%w: want a JSON array, have %v", ErrMalformed, open)
	}
	list, err := f.decodeEntries(key, dec, text)
	if err != nil {
		return List{}, err
	}
	return list, atEnd(dec)
}

// decodeEntries reads what stands between the brackets.
func (f Form) decodeEntries(key Key, dec *json.Decoder, text []byte) (List, error) {
	var list List
	seen := map[string]int{}
	for i := 0; dec.More(); i++ {
		start := dec.InputOffset()
		op, uid, err := f.decodeEntry(dec.Decode)
		if err != nil {
			if dec.InputOffset() == start { // not even JSON: nothing after it can be read
				return List{}, fmt.Errorf("entry %d: %w: %w", i, ErrMalformed, err)
			}
			raw := bytes.TrimLeft(text[start:dec.InputOffset()], ", \t\r\n")
			op, uid, err = f.splitEntry(raw)
		}
		if err != nil {
			return List{}, fmt.Errorf("entry %d, operation %q: %w: %w", i, op.ID, ErrMalformed, err)
		}
		entry, err := newEntry(op)
		if err != nil {
			return List{}, fmt.Errorf("entry %d: %w", i, err)
		}
		if err := foreign(key, uid); err != nil {
			return List{}, fmt.Errorf("entry %d, operation %q: %w", i, op.ID, err)
		}
		if first, twice := seen[op.ID]; twice {
			return List{}, fmt.Errorf("entries %d and %d, operation %q: %w: %w", first, i, op.ID, ErrMalformed, ErrDuplicate)
		}
		seen[op.ID] = i
		list.ops = append(list.ops, entry)
	}
	if _, err := dec.Token(); err != nil { // the closing bracket
		return List{}, fmt.Errorf("%w: after entry %d: %w", ErrMalformed, len(list.ops)-1, err)
	}
	list.reindex()
	return list, nil
}

// decodeEntry reads one entry with the given function.
func (f Form) decodeEntry(decode func(any) error) (Operation, types.UID, error) {
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

// unzip returns the document and the comment of the file, and never makes more than limit bytes of it.
func unzip(data []byte, limit int64) (text []byte, comment string, err error) {
	text, err = gzipjson.Expand(data, limit)
	switch {
	case errors.Is(err, gzipjson.ErrTooLarge):
		return nil, "", fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
	case err != nil:
		return nil, "", fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return text, zip.Comment, nil
}

// atEnd returns an error unless nothing but white space is left.
func atEnd(dec *json.Decoder) error {
	if more, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: text after the array: %v", ErrMalformed, more)
	}
	return nil
}
