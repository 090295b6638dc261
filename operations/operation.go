package operations

import (
	"maps"
	"slices"
	"time"
)

// ResourceID names a Kubernetes object as Velero's item operations do: by API group and plural resource, not by kind.
// The zero ResourceID names nothing. An empty Namespace means a cluster-scoped object, an empty Group the core group.
type ResourceID struct {
	Group, Resource, Namespace, Name string
}

// Operation is one piece of asynchronous work: who does it, on what, and how far it is. It is plain data. The zero
// Operation is not valid: a [List] refuses an operation without ID.
//
// Keys of the stored document that this package does not know travel inside the operation, so that an operation taken
// from a list, changed and set again keeps them.
type Operation struct {
	// ID names the operation inside its list and to its action, which alone knows what it means.
	ID string
	// Action is the name under which the action is registered that answers for this operation.
	Action string
	// Resource is the item the operation works on.
	Resource ResourceID
	// PostItems are items to be handled again once the operation has ended. Backups only; order is kept.
	PostItems []ResourceID
	// Parent is the ID of the operation that this one is a part of, in the same list. When the parent ends as Failed,
	// Canceled or Abandoned, the [Poller] asks this one to stop. Empty, or an ID that is not in the list: no parent.
	// Velero does not know it and leaves it out when it writes the file.
	Parent string
	// Status is how far the operation is.
	Status Status

	extra *extra // never changed once set, so copies may share it
}

// Equal reports whether both operations say the same, unknown keys of the stored document included. Times are equal
// when they are the same second, which is what the stored document keeps.
func (o Operation) Equal(other Operation) bool {
	return o.ID == other.ID && o.Action == other.Action && o.Resource == other.Resource &&
		slices.Equal(o.PostItems, other.PostItems) && o.Parent == other.Parent && o.Status.Equal(other.Status) && o.extra.equal(other.extra)
}

// clone returns a copy that shares nothing a caller could change.
func (o Operation) clone() Operation {
	o.PostItems = slices.Clone(o.PostItems)
	o.Status = o.Status.clone()
	return o
}

// extra holds the unknown keys of an entry, by the object they stood in. It is immutable.
type extra struct {
	entry, spec, status, own fields
	resources                map[place]fields
}

// place is where a resource stands in an entry: the nth of equal post items, or the entry's own resource, which has nth
// -1.
type place struct {
	id  ResourceID
	nth int
}

// places returns where each post item stands.
func (o *Operation) places() []place {
	out := make([]place, len(o.PostItems))
	count := make(map[ResourceID]int, len(o.PostItems))
	for i, id := range o.PostItems {
		out[i] = place{id, count[id]}
		count[id]++
	}
	return out
}

// fields are JSON members in the order of their keys, each key once; values are compact JSON text.
type fields []field

type field struct{ key, value string }

func (e *extra) equal(other *extra) bool {
	if e == nil || other == nil {
		return e == other
	}
	return slices.Equal(e.entry, other.entry) && slices.Equal(e.spec, other.spec) && slices.Equal(e.status, other.status) &&
		slices.Equal(e.own, other.own) && maps.EqualFunc(e.resources, other.resources, slices.Equal[fields])
}

// sameSecond compares two optional times as the stored document would.
func sameSecond(a, b *time.Time) bool {
	a, b = stored(a), stored(b)
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(*b)
}

// stored returns t as the document keeps it, nil for no time.
func stored(t *time.Time) *time.Time {
	if t == nil || t.IsZero() {
		return nil
	}
	return new(inDocument(*t))
}

// inDocument returns t as the document keeps it: whole seconds in UTC.
func inDocument(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }
