package operations

import "fmt"

// Record is what a [Map] holds for a key at one moment: a value of the caller's own. The version it was read at travels
// inside it, so that a [Map.Put] of a record that has been overtaken is refused. A Record made by the caller has no
// version: it can be put only where there is nothing yet.
type Record struct {
	Key  Key
	List List

	base   *revision
	exists bool
}

// Summary counts the operations by how they ended.
func (r Record) Summary() Summary { return r.List.Summary() }

// Missing reports whether there was neither a document in the store nor anything put when the record was read: no
// operations, as opposed to a document with an empty list.
func (r Record) Missing() bool { return !r.exists }

// Expect returns an error when operations were attempted, as the owner's status counts them, and the record has no
// document: then it was lost, as by a change of the storage, and its emptiness says nothing. The error is [ErrNotFound]
// and names the key. A document with fewer operations is none: one attempt may have been registered late.
func (r Record) Expect(attempted int) error {
	if attempted <= 0 || r.exists {
		return nil
	}
	return fmt.Errorf("operations of %s: %w, but %d were attempted", r.Key, ErrNotFound, attempted)
}

// revision identifies one committed content of one key in one map. Only its address counts.
type revision struct{ _ byte }
