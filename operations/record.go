package operations

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

// revision identifies one committed content of one key in one map. Only its address counts.
type revision struct{ _ byte }
