package operations

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// ownerPrefix stands before the owner's UID in the comment of the gzip header. Velero ignores that comment; it gives
// an empty list an owner too.
const ownerPrefix = "owner-uid="

// DefaultMaxBytes is how large a document may be before compression, unless the options say otherwise: room for more
// than 100 000 operations.
const DefaultMaxBytes = 64 << 20

// Encode returns the list as Velero's file: gzip of a JSON array and a newline. The same list gives the same bytes. The
// key must be valid. A [RestoreForm] refuses an operation with PostItems ([ErrMalformed]), for which it has no place.
func (f Form) Encode(key Key, list List) ([]byte, error) {
	return f.encode(key, list, DefaultMaxBytes)
}

func (f Form) encode(key Key, list List, limit int64) ([]byte, error) {
	if err := f.validate(); err != nil {
		return nil, err
	}
	if err := key.Validate(); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	zip.Comment = ownerPrefix + string(key.UID)
	size := int64(len("[]\n"))
	sep := "["
	for _, op := range list.ops {
		entry, err := f.encodeEntry(key, op)
		if err != nil {
			return nil, fmt.Errorf("encode operation %q: %w", op.ID, err)
		}
		if size += int64(len(sep) + len(entry)); size > limit {
			return nil, fmt.Errorf("encode %d operations: %w: more than %d bytes", len(list.ops), ErrTooLarge, limit)
		}
		if err := writeAll(zip, []byte(sep), entry); err != nil {
			return nil, err
		}
		sep = ","
	}
	end := "]\n"
	if len(list.ops) == 0 {
		end = "[]\n"
	}
	if err := writeAll(zip, []byte(end)); err != nil {
		return nil, err
	}
	if err := zip.Close(); err != nil {
		return nil, fmt.Errorf("compress operations: %w", err)
	}
	return out.Bytes(), nil
}

func writeAll(zip *gzip.Writer, parts ...[]byte) error {
	for _, p := range parts {
		if _, err := zip.Write(p); err != nil {
			return fmt.Errorf("compress operations: %w", err)
		}
	}
	return nil
}

func (f Form) encodeEntry(key Key, op *Operation) ([]byte, error) {
	if f == RestoreForm {
		if len(op.PostItems) > 0 {
			return nil, fmt.Errorf("%w: a restore's operation has no post items", ErrMalformed)
		}
		e := toRestoreEntry(key, op)
		if op.extra == nil {
			return json.Marshal(e)
		}
		return joinEntry(op, e.Spec, e.Status)
	}
	e := toBackupEntry(key, op)
	if op.extra == nil {
		return json.Marshal(e)
	}
	return joinEntry(op, e.Spec, e.Status)
}

// joinEntry writes the entry with the unknown keys that came with it, each object's in sorted order.
func joinEntry(op *Operation, spec any, status wireStatus) ([]byte, error) {
	x := op.extra
	own, err := object(status.Own, x.own)
	if err != nil {
		return nil, err
	}
	status.Own = nil
	st, err := object(status, x.status)
	if err != nil {
		return nil, err
	}
	if len(own) > 0 {
		if st[ownKey], err = json.Marshal(own); err != nil {
			return nil, err
		}
	}
	sp, err := object(spec, x.spec)
	if err != nil {
		return nil, err
	}
	if err := joinResources(op, sp); err != nil {
		return nil, err
	}
	entry := map[string]json.RawMessage{}
	for k, v := range x.entry {
		entry[k] = json.RawMessage(v)
	}
	if entry["spec"], err = json.Marshal(sp); err != nil {
		return nil, err
	}
	if entry["status"], err = json.Marshal(st); err != nil {
		return nil, err
	}
	return json.Marshal(entry)
}

// joinResources gives the resources in a spec the unknown keys that came with them.
func joinResources(op *Operation, spec map[string]json.RawMessage) error {
	if len(op.extra.resources) == 0 {
		return nil
	}
	own, items := op.places()
	one, err := object(own.id, op.extra.resources[own])
	if err != nil {
		return err
	}
	if spec[resourceKey], err = json.Marshal(one); err != nil {
		return err
	}
	if len(op.PostItems) == 0 {
		return nil
	}
	var posts []map[string]json.RawMessage
	for _, item := range items {
		post, err := object(item.id, op.extra.resources[item])
		if err != nil {
			return err
		}
		posts = append(posts, post)
	}
	spec[postItemsKey], err = json.Marshal(posts)
	return err
}

// object returns v as a JSON object with more keys; those of v win.
func object(v any, more fields) (map[string]json.RawMessage, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	out := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, err
	}
	if out == nil { // v was nil
		out = map[string]json.RawMessage{}
	}
	for _, k := range slices.Sorted(maps.Keys(more)) {
		if _, known := out[k]; !known {
			out[k] = json.RawMessage(more[k])
		}
	}
	return out, nil
}

// foreign returns [ErrForeignRecord] when uid is not that of the key's owner.
func foreign(key Key, uid types.UID) error {
	if uid == key.UID {
		return nil
	}
	return fmt.Errorf("%w: UID %q", ErrForeignRecord, uid)
}
