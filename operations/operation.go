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
	// Status is how far the operation is.
	Status Status

	extra *extra // never changed once set, so copies may share it
}

// Equal reports whether both operations say the same, unknown keys of the stored document included. Times are equal
// when they are the same second, which is what the stored document keeps.
func (o Operation) Equal(other Operation) bool {
	return o.ID == other.ID && o.Action == other.Action && o.Resource == other.Resource &&
		slices.Equal(o.PostItems, other.PostItems) && o.Status.Equal(other.Status) && o.extra.equal(other.extra)
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

// places returns where the operation's resource and each post item stand.
func (o *Operation) places() (own place, posts []place) {
	count := map[ResourceID]int{}
	for _, id := range o.PostItems {
		posts = append(posts, place{id, count[id]})
		count[id]++
	}
	return place{o.Resource, -1}, posts
}

// fields are JSON members by key; values are compact JSON text.
type fields map[string]string

func (e *extra) equal(other *extra) bool {
	if e == nil || other == nil {
		return e == other
	}
	return maps.Equal(e.entry, other.entry) && maps.Equal(e.spec, other.spec) && maps.Equal(e.status, other.status) &&
		maps.Equal(e.own, other.own) &&
		maps.EqualFunc(e.resources, other.resources, maps.Equal[fields, fields])
}

// sameSecond compares two optional times as the stored document would.
func sameSecond(a, b *time.Time) bool {
	a, b = stored(a), stored(b)
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(*b)
}

// stored returns t as the document keeps it: whole seconds in UTC, nil for no time.
func stored(t *time.Time) *time.Time {
	if t == nil || t.IsZero() {
		return nil
	}
	return new(t.UTC().Truncate(time.Second))
}
