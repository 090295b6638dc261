package apiserver

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// ErrUnknownKind is the error for an object of a kind that the server does not serve.
var ErrUnknownKind = errors.New("unknown kind")

// ofKind returns the table of a kind in any version it is served in, or nil. It needs the lock, or a server that nobody
// shares yet.
func (s *Server) ofKind(gvk schema.GroupVersionKind) *table {
	for _, t := range s.tables {
		if t.res.groupKind() == gvk.GroupKind() && t.res.serves(gvk.Version) && !t.res.virtual {
			return t
		}
	}
	return nil
}

// Knows returns a function that reports whether the server serves a kind, or will when objects, some of which may be
// CustomResourceDefinitions, are inserted.
func (s *Server) Knows(objects []*unstructured.Unstructured) func(schema.GroupVersionKind) bool {
	lookup := s.lookup(objects)
	return func(gvk schema.GroupVersionKind) bool { return lookup(gvk) != nil }
}

// lookup finds the resource of a kind that is served, or that a definition among objects defines.
func (s *Server) lookup(objects []*unstructured.Unstructured) func(schema.GroupVersionKind) *Resource {
	defined := map[schema.GroupKind]*Resource{}
	for _, u := range objects {
		if !isDefinition(u) {
			continue
		}
		if res, faults := define(u); len(faults) == 0 && established(u) {
			defined[res.groupKind()] = res
		}
	}
	return func(gvk schema.GroupVersionKind) *Resource {
		s.mu.Lock()
		defer s.mu.Unlock()
		if t := s.ofKind(gvk); t != nil {
			return t.res
		}
		if res := defined[gvk.GroupKind()]; res != nil && res.serves(gvk.Version) {
			return res
		}
		return nil
	}
}

func isDefinition(u *unstructured.Unstructured) bool {
	return u.GetAPIVersion() == "apiextensions.k8s.io/v1" && u.GetKind() == "CustomResourceDefinition"
}

// establishAll makes the definitions among objects resources that are served. It needs the lock.
func (s *Server) establishAll(objects []*unstructured.Unstructured) error {
	for _, u := range objects {
		if !isDefinition(u) {
			continue
		}
		if err := s.establishStored(u); err != nil {
			return fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	return nil
}

// CheckDefinitions returns an error that names the first CustomResourceDefinition among the objects that no server would
// take, and its fields. Insert stores such a one as a kind that is not served.
func (s *Server) CheckDefinitions(objects []*unstructured.Unstructured) error {
	lookup := s.lookup(objects)
	for _, u := range objects {
		if !isDefinition(u) {
			continue
		}
		if _, faults := define(u); len(faults) > 0 {
			return fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), lookup(u.GroupVersionKind()).invalid(u, faults))
		}
	}
	return nil
}

// Insert stores objects as they are, all or, with an error that names the object, none: status, UID, owner references,
// finalizers and times are kept, what is missing of them is made, and the resourceVersion is new. Namespaces that are not
// there are made too. An object that exists is an AlreadyExists error or, with keep, left as it is. Insert copies objects.
func (s *Server) Insert(keep bool, objects ...*unstructured.Unstructured) error {
	ready := make([]*unstructured.Unstructured, 0, len(objects))
	lookup := s.lookup(objects)
	for _, u := range objects {
		own, err := insertable(u, lookup(u.GroupVersionKind()))
		if err != nil {
			return fmt.Errorf("%s %s: %w", u.GetKind(), keyOf(u.GetNamespace(), u.GetName()), err)
		}
		ready = append(ready, own)
	}
	if err := s.insertAll(keep, ready); err != nil {
		return err
	}
	return s.persistInserted()
}

// insertable is a valid copy of u in the storage version of its resource.
func insertable(u *unstructured.Unstructured, res *Resource) (*unstructured.Unstructured, error) {
	if res == nil {
		return nil, fmt.Errorf("%w: %s", ErrUnknownKind, u.GroupVersionKind())
	}
	copied, err := copyJSON(u.Object)
	if err != nil {
		return nil, err
	}
	own, _, err := res.accept(copied, u.GroupVersionKind().Version)
	if err != nil {
		return nil, err
	}
	if res.Namespaced && own.GetNamespace() == "" {
		own.SetNamespace("default")
	}
	if phase, _, _ := unstructured.NestedString(own.Object, "status", "phase"); phase == "" && res.phase != "" {
		if err := unstructured.SetNestedField(own.Object, res.phase, "status", "phase"); err != nil {
			return nil, err
		}
	}
	return own, res.initialise(own)
}

func (s *Server) insertAll(keep bool, objects []*unstructured.Unstructured) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.establishAll(objects); err != nil {
		return err
	}
	type item struct{ kind, key string }
	seen := make(map[item]bool, len(objects))
	var fresh []*unstructured.Unstructured
	for _, u := range objects {
		t := s.ofKind(u.GroupVersionKind())
		id := item{kind: u.GetKind(), key: keyOf(u.GetNamespace(), u.GetName())}
		switch exists := seen[id] || t.get(u.GetNamespace(), u.GetName()) != nil; {
		case !exists:
			seen[id] = true
			fresh = append(fresh, u)
		case !keep:
			return apierrors.NewAlreadyExists(t.res.groupResource(), u.GetName())
		}
	}
	slices.SortStableFunc(fresh, namespacesFirst)
	for _, u := range fresh {
		t := s.ofKind(u.GroupVersionKind())
		if namespace := u.GetNamespace(); namespace != "" {
			if err := s.ensureNamespace(namespace); err != nil {
				return err
			}
		}
		if _, err := s.put(t, nil, u); err != nil {
			return err
		}
	}
	return nil
}

// namespacesFirst keeps a namespace from being made by what is in it before it is put in itself.
func namespacesFirst(a, b *unstructured.Unstructured) int {
	return cmp.Compare(len(a.GetNamespace()), 0) - cmp.Compare(len(b.GetNamespace()), 0)
}

// copyJSON copies by way of JSON, so that an object made by hand may hold any value that JSON can: plain ints too.
func copyJSON(object map[string]any) (map[string]any, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	return out, utiljson.Unmarshal(raw, &out)
}
