package operations

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/sheetanchor/sheetanchor/internal/gzipjson"
)

// Names of members that are handled apart.
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
	if err := foreignFile(key, owner); err != nil {
		return List{}, err
	}
	read := reading{form: f, key: key, text: text}
	if err := read.all(); err != nil {
		return List{}, err
	}
	return read.list, nil
}

// foreignFile returns [ErrForeignRecord] when the comment of the file names another owner than the key's.
func foreignFile(key Key, comment string) error {
	if uid, ok := strings.CutPrefix(comment, ownerPrefix); ok {
		return foreign(key, types.UID(uid))
	}
	return nil
}

// unzip returns the document and the comment of the file, and never makes more than limit bytes of it.
func unzip(data []byte, limit int64) (text []byte, comment string, err error) {
	if zip, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
		comment = zip.Comment
	}
	text, err = gzipjson.Expand(data, limit)
	switch {
	case errors.Is(err, gzipjson.ErrTooLarge):
		return nil, comment, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
	case err != nil:
		return nil, comment, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return text, comment, nil
}
