package operations

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/types"
)

// ownerPrefix stands before the owner's UID in the comment of the gzip header. Velero ignores that comment; it gives
// an empty list an owner too.
const ownerPrefix = "owner-uid="

// DefaultMaxBytes is how large a document may be before compression, unless the options say otherwise: room for 100 000
// operations of a CSI driver, each with two post items and names of 63 characters, which is 1 252 bytes.
const DefaultMaxBytes = 128 << 20

// Encode returns the list as Velero's file: gzip of a JSON array and a newline. The same list gives the same bytes. The
// key must be valid. A [RestoreForm] refuses an operation with PostItems ([ErrMalformed]), for which it has no place.
func (f Form) Encode(key Key, list List) ([]byte, error) {
	return f.encode(key, list, DefaultMaxBytes)
}

func (f Form) encode(key Key, list List, limit int64) ([]byte, error) {
	return f.encodeWith(gzip.NewWriter(nil), key, list, limit)
}

// encodeWith is encode with a compressor that was used before.
func (f Form) encodeWith(zip *gzip.Writer, key Key, list List, limit int64) ([]byte, error) {
	var out bytes.Buffer
	zip.Reset(&out)
	zip.Comment = ownerPrefix + string(key.UID)
	if err := f.writeText(zip, key, list, limit); err != nil {
		return nil, err
	}
	if err := zip.Close(); err != nil {
		return nil, fmt.Errorf("compress operations: %w", err)
	}
	return out.Bytes(), nil
}

// writeText writes the document as it is before compression.
func (f Form) writeText(to io.Writer, key Key, list List, limit int64) error {
	if err := errors.Join(f.validate(), key.Validate()); err != nil {
		return err
	}
	doc := document{form: f, names: f.names(), key: key, buf: []byte{'['}}
	size := int64(0)
	for i, op := range list.ops {
		if f == RestoreForm && len(op.PostItems) > 0 {
			return fmt.Errorf("encode operation %q: %w: a restore's operation has no post items", op.ID, ErrMalformed)
		}
		if i > 0 {
			doc.buf = append(doc.buf, ',')
		}
		doc.entry(op)
		if size+int64(len(doc.buf)+len("]\n")) > limit {
			return fmt.Errorf("encode %d operations: %w: more than %d bytes", len(list.ops), ErrTooLarge, limit)
		}
		if len(doc.buf) < encodeChunk {
			continue
		}
		if _, err := to.Write(doc.buf); err != nil {
			return fmt.Errorf("write operations: %w", err)
		}
		size += int64(len(doc.buf))
		doc.buf = doc.buf[:0]
	}
	if _, err := to.Write(append(doc.buf, ']', '\n')); err != nil {
		return fmt.Errorf("write operations: %w", err)
	}
	return nil
}

// encodeChunk is from how much text on it is passed to the compressor.
const encodeChunk = 16 << 10

// foreign returns [ErrForeignRecord] when uid is not that of the key's owner.
func foreign(key Key, uid types.UID) error {
	if uid == key.UID {
		return nil
	}
	return fmt.Errorf("%w: UID %q", ErrForeignRecord, uid)
}
