package apiserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// file keeps the state as a List that kubectl reads too.
type file struct {
	path string
	turn chan struct{} // of capacity one: who has put a value in writes, and guards saved
	// saved is the resourceVersion up to which the file is written.
	saved uint64
}

func newFile(path string) *file { return &file{path: path, turn: make(chan struct{}, 1)} }

// persist returns when all changes made so far are in the file. A ctx that ends first leaves them to the next caller: the
// change is made, and its client gets no answer.
func (s *Server) persist(ctx context.Context) error {
	if s.file == nil {
		return nil
	}
	wanted := s.current()
	select {
	case s.file.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.write(wanted)
}

// persistInserted is persist for a caller without a context. It waits for other writes of the file only.
func (s *Server) persistInserted() error {
	if s.file == nil {
		return nil
	}
	wanted := s.current()
	s.file.turn <- struct{}{}
	return s.write(wanted)
}

// write replaces the file unless another has written the wanted state. The caller has the turn, and write ends it.
func (s *Server) write(wanted uint64) error {
	defer func() { <-s.file.turn }()
	if s.file.saved >= wanted {
		return nil
	}
	state, rv := s.state()
	if err := s.file.replace(state); err != nil {
		return fmt.Errorf("keep state in %s: %w", s.file.path, err)
	}
	s.file.saved = rv
	return nil
}

// state is everything as one List, in the order of group, resource and key.
func (s *Server) state() ([]byte, uint64) {
	s.mu.Lock()
	rv := s.rv
	var objects []*object
	for _, t := range s.sorted() {
		objects = append(objects, t.objects...)
	}
	s.mu.Unlock()
	var out bytes.Buffer
	fmt.Fprintf(&out, "{\"apiVersion\":\"v1\",\"kind\":\"List\",\"metadata\":{\"resourceVersion\":%q},\"items\":[", formatVersion(rv))
	for i, o := range objects {
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteByte('\n')
		out.Write(o.raw)
	}
	out.WriteString("\n]}\n")
	return out.Bytes(), rv
}

// replace writes a new file beside the old one and renames it.
func (f *file) replace(state []byte) error {
	temp := filepath.Join(filepath.Dir(f.path), "."+filepath.Base(f.path)+".tmp") // always the same: what a kill leaves is written over
	err := os.WriteFile(temp, state, 0o600)
	if err == nil {
		err = os.Rename(temp, f.path)
	}
	if err == nil {
		return nil
	}
	if rmErr := os.Remove(temp); rmErr != nil && !errors.Is(rmErr, fs.ErrNotExist) {
		err = errors.Join(err, rmErr)
	}
	return err
}

// restore reads the file. found is false when there is none. It is for New.
func (s *Server) restore() (found bool, err error) {
	raw, err := os.ReadFile(s.file.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = s.load(raw)
	}
	if err != nil {
		return true, fmt.Errorf("read state from %s: %w", s.file.path, err)
	}
	s.file.saved = s.rv
	return true, nil
}

func (s *Server) load(raw []byte) error {
	var list map[string]any
	if err := utiljson.Unmarshal(raw, &list); err != nil {
		return err
	}
	meta, _, _ := unstructured.NestedString(list, "metadata", "resourceVersion")
	rv, err := strconv.ParseUint(meta, 10, 64)
	if err != nil || list["kind"] != "List" {
		return errors.New("it is not a List with a resourceVersion")
	}
	items, ok := list["items"].([]any)
	if !ok {
		return errors.New("it has no items")
	}
	for _, definitions := range []bool{true, false} { // which the others may need
		for i, item := range items {
			if members, ok := item.(map[string]any); ok && isDefinition(&unstructured.Unstructured{Object: members}) != definitions || !ok && definitions {
				continue
			}
			if err := s.loadItem(item, rv); err != nil {
				return fmt.Errorf("item %d: %w", i, err)
			}
		}
	}
	s.rv = rv
	for _, t := range s.tables {
		t.log = newHistory(rv)
	}
	return nil
}

func (s *Server) loadItem(item any, last uint64) error {
	members, ok := item.(map[string]any)
	if !ok {
		return errors.New("it is not an object")
	}
	u := &unstructured.Unstructured{Object: members}
	t := s.ofKind(u.GroupVersionKind())
	if t == nil {
		return fmt.Errorf("%w: %s", ErrUnknownKind, u.GroupVersionKind())
	}
	name := keyOf(u.GetNamespace(), u.GetName())
	rv, err := strconv.ParseUint(u.GetResourceVersion(), 10, 64)
	if err != nil || rv == 0 || rv > last {
		return fmt.Errorf("%s %s: metadata.resourceVersion %q is not one up to %d", u.GetKind(), name, u.GetResourceVersion(), last)
	}
	if u.GetUID() == "" {
		return fmt.Errorf("%s %s: metadata.uid is empty", u.GetKind(), name)
	}
	if t.get(u.GetNamespace(), u.GetName()) != nil {
		return fmt.Errorf("%s %s: it is there twice", u.GetKind(), name)
	}
	if err := t.res.initialise(u); err != nil {
		return err
	}
	s.rv = rv - 1
	if t.res.isDefinition() {
		if err := s.establishStored(u); err != nil {
			return err
		}
	}
	o, err := s.put(t, nil, u)
	if err == nil && t.res.isDefinition() && u.GetDeletionTimestamp() != nil {
		s.resume(o)
	}
	return err
}
