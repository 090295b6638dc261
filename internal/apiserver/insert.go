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

// ofKind returns the table of a kind in any version it is served in, or nil.
func (s *Server) ofKind(gvk schema.GroupVersionKind) *table {
	for _, t := range s.tables {
		if t.res.groupKind() == gvk.GroupKind() && t.res.serves(gvk.Version) {
			return t
		}
	}
	return nil
}

// Knows reports whether the server serves a kind.
func (s *Server) Knows(gvk schema.GroupVersionKind) bool { return s.ofKind(gvk) != nil }

// Insert stores objects as they are, all or, with an error that names the object, none: status, UID, owner references,
// finalizers and times are kept, what is missing of them is made, and the resourceVersion is new. Namespaces that are not
// there are made too. An object that exists is an AlreadyExists error or, with keep, left as it is. Insert copies objects.
func (s *Server) Insert(keep bool, objects ...*unstructured.Unstructured) error {
	ready := make([]*unstructured.Unstructured, 0, len(objects))
	for _, u := range objects {
		own, err := s.accepted(u)
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

// accepted is a valid copy of u in its storage version.
func (s *Server) accepted(u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	t := s.ofKind(u.GroupVersionKind())
	if t == nil {
		return nil, fmt.Errorf("%w: %s", ErrUnknownKind, u.GroupVersionKind())
	}
	copied, err := copyJSON(u.Object)
	if err != nil {
		return nil, err
	}
	own, err := t.res.accept(copied, u.GroupVersionKind().Version, false)
	if err != nil {
		return nil, err
	}
	if t.res.Namespaced && own.GetNamespace() == "" {
		own.SetNamespace("default")
	}
	if phase, _, _ := unstructured.NestedString(own.Object, "status", "phase"); phase == "" && t.res.phase != "" {
		if err := unstructured.SetNestedField(own.Object, t.res.phase, "status", "phase"); err != nil {
			return nil, err
		}
	}
	return own, t.res.initialise(own)
}

func (s *Server) insertAll(keep bool, objects []*unstructured.Unstructured) error {
	s.mu.Lock()
	defer s.mu.Unlock()
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
