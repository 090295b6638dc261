package operations

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
)

// Fault is an entry of a document that could not be read.
type Fault struct {
	// Entry is its position in the document, from 0; -1 stands for everything after the last entry that was read.
	Entry int
	// ID is the operation's, empty when that is not known either.
	ID string
	// Err says what is wrong; it is [ErrMalformed] or [ErrTooLarge].
	Err error
}

// String returns the error's text, which names the entry.
func (f Fault) String() string { return f.Err.Error() }

// DecodeLenient is [Form.Decode] for a file that may be damaged: it returns the entries that can be read and a fault for
// each other one, in the order of the file. Of two entries of one ID the first counts. What comes after text that is
// no JSON, and after [DefaultMaxBytes], cannot be read, which is one fault with entry -1. A file of another owner, or
// with an entry of one, is [ErrForeignRecord], and nothing is returned of it.
func (f Form) DecodeLenient(key Key, data []byte) (List, []Fault, error) {
	return f.decodeLenient(key, data, DefaultMaxBytes)
}

func (f Form) decodeLenient(key Key, data []byte, limit int64) (List, []Fault, error) {
	if err := f.validate(); err != nil {
		return List{}, nil, err
	}
	text, owner, broken := unzip(data, limit)
	if broken != nil {
		text = partly(data, limit)
	}
	if err := foreignFile(key, owner); err != nil {
		return List{}, nil, err
	}
	var faults []Fault
	read := reading{form: f, key: key, text: text, lenient: func(f Fault) error {
		faults = append(faults, f)
		return nil
	}}
	err := read.all()
	if errors.Is(err, ErrForeignRecord) {
		return List{}, nil, err
	}
	if broken != nil {
		err = broken // why the text ends
	}
	if err != nil {
		read.list.reindex()
		faults = append(faults, Fault{Entry: -1, Err: err})
	}
	return read.list, faults, nil
}

// partly returns as much as there is of a damaged file.
func partly(data []byte, limit int64) []byte {
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(zip, limit)) // the error is known
	return text
}

// LoadLenient reads a record that may be damaged: the operations that can be read, and a fault for each entry that
// cannot, so that a workflow can end what it knows of instead of hanging. It reads the store and neither uses nor
// changes what the map knows, and the record cannot be put: an unreadable document is never overwritten. Without any
// fault the record is that of [Map.Peek]. The error is the store's, or [ErrForeignRecord].
func (m *Map) LoadLenient(ctx context.Context, key Key) (Record, []Fault, error) {
	if err := m.check(key); err != nil {
		return Record{}, nil, err
	}
	data, _, err := read(ctx, m.store, m.form.FileName(key.Name))
	if errors.Is(err, ErrNotFound) {
		return Record{Key: key, base: new(revision)}, nil, nil
	}
	var list List
	var faults []Fault
	if err == nil {
		list, faults, err = m.form.decodeLenient(key, data, m.opts.MaxBytes)
	}
	if err != nil {
		return Record{}, nil, fmt.Errorf("load operations of %s leniently: %w", key, err)
	}
	return Record{Key: key, List: list, base: new(revision), exists: true}, faults, nil
}
