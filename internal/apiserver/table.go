package apiserver

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

// table holds the objects of one resource. Its methods need the server's lock.
type table struct {
	res     *Resource
	objects []*object // sorted by key
	log     history
	ended   chan struct{} // closed, and replaced, to end the watches of this resource
	defined bool          // by a CustomResourceDefinition
	ending  bool          // its definition is being deleted
}

func newTable(res *Resource) *table {
	return &table{res: res, log: newHistory(0), ended: make(chan struct{})}
}

func (t *table) find(key string) (int, bool) {
	return slices.BinarySearchFunc(t.objects, key, func(o *object, key string) int { return cmp.Compare(o.key, key) })
}

func (t *table) get(namespace, name string) *object {
	if i, ok := t.find(keyOf(namespace, name)); ok {
		return t.objects[i]
	}
	return nil
}

// within returns the objects of a namespace, or all for "".
func (t *table) within(namespace string) []*object {
	return within(t.objects, namespace)
}

func within(objects []*object, namespace string) []*object {
	if namespace == "" {
		return objects
	}
	prefix := namespace + "/"
	byPrefix := func(o *object, prefix string) int {
		if strings.HasPrefix(o.key, prefix) {
			return 0
		}
		return cmp.Compare(o.key, prefix)
	}
	from, _ := slices.BinarySearchFunc(objects, prefix, byPrefix)
	rest := objects[from:]
	n := 0
	for n < len(rest) && strings.HasPrefix(rest[n].key, prefix) {
		n++
	}
	return rest[:n]
}

// at returns all objects as they were at rv, sorted by key, and false if that is forgotten.
func (t *table) at(rv uint64) ([]*object, bool) {
	later, ok := t.log.since(rv)
	if !ok {
		return nil, false
	}
	if len(later) == 0 {
		return t.objects, true
	}
	then := make(map[string]*object, len(later)) // by key, as before the first later change; nil: absent
	for _, n := range slices.Backward(later) {
		then[n.object.key] = n.prev
	}
	objects := make([]*object, 0, len(t.objects)+len(then))
	for _, o := range t.objects {
		if _, changed := then[o.key]; !changed {
			objects = append(objects, o)
		}
	}
	for _, o := range then {
		if o != nil {
			objects = append(objects, o)
		}
	}
	slices.SortFunc(objects, func(a, b *object) int { return cmp.Compare(a.key, b.key) })
	return objects, true
}

// put stores u, which the caller gives away, as the new state of prev (nil: a new object).
func (s *Server) put(t *table, prev *object, u *unstructured.Unstructured) (*object, error) {
	o, err := newObject(u, s.rv+1)
	if err != nil {
		return nil, err
	}
	s.rv++
	i, exists := t.find(o.key)
	kind := watch.Added
	if exists {
		kind = watch.Modified
		t.objects[i] = o
	} else {
		t.objects = slices.Insert(t.objects, i, o)
	}
	t.log.add(event{rv: o.rv, kind: kind, prev: prev, object: o})
	if prev != nil {
		prev.fade()
	}
	if t.res.Kind == "Event" {
		o.fade() // there are many, and hardly anybody changes one
	}
	return o, nil
}

// remove takes prev away. u, which the caller gives away, is its last state.
func (s *Server) remove(t *table, prev *object, u *unstructured.Unstructured) (*object, error) {
	o, err := newObject(u, s.rv+1)
	if err != nil {
		return nil, err
	}
	s.rv++
	if i, ok := t.find(o.key); ok {
		t.objects = slices.Delete(t.objects, i, i+1)
	}
	t.log.add(event{rv: o.rv, kind: watch.Deleted, prev: prev, object: o})
	prev.fade()
	o.fade()
	return o, s.drained(t)
}
