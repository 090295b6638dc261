package apiserver

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Options configure a [Server].
type Options struct {
	// Resources are what the server serves; two of one group and plural name are an error.
	Resources []Resource
	// File, if not empty, keeps the state: it is read by [New] when it exists and replaced by a rename after each change,
	// before the change is answered. It survives the end of the process, not a loss of power.
	File string
	// RefuseWatchList makes the server answer 422 to a watch with sendInitialEvents, as servers without that feature do.
	RefuseWatchList bool
	// BookmarkEvery is how often a watch that allows bookmarks gets one. Zero means only at the end of initial events.
	BookmarkEvery time.Duration
}

// Server is the API server. Make one with [New].
type Server struct {
	opts   Options
	file   *file         // nil without File
	closed chan struct{} // closed by Close
	close  func()

	mu     sync.Mutex                      // protects what follows and every table
	rv     uint64                          // of the last change
	tables map[schema.GroupResource]*table // what is served
	grants map[string][]rbacv1.PolicyRule  // by user
}

// New makes a server with the namespaces default and kube-system, or with the objects of opts.File if that exists. A
// broken file is an error that names it.
func New(opts Options) (*Server, error) {
	s := &Server{opts: opts, closed: make(chan struct{}), tables: make(map[schema.GroupResource]*table), grants: make(map[string][]rbacv1.PolicyRule)}
	s.close = sync.OnceFunc(func() { close(s.closed) })
	var errs []error
	for _, resource := range opts.Resources {
		res, err := resource.complete()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if _, ok := s.tables[res.groupResource()]; ok {
			errs = append(errs, fmt.Errorf("resource %q: Plural: %s is served already", res.Plural, res.groupResource()))
			continue
		}
		s.tables[res.groupResource()] = newTable(res)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if opts.File != "" {
		s.file = newFile(opts.File)
		found, err := s.restore()
		if found || err != nil {
			return s, err
		}
	}
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem} {
		if err := s.ensureNamespace(name); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Close ends all watches and refuses all later requests. It may be called more than once.
func (s *Server) Close() { s.close() }

// Done is closed by Close.
func (s *Server) Done() <-chan struct{} { return s.closed }

// find returns the table of a resource and what the resource is now, or nil.
func (s *Server) find(group, plural string) (*table, *Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.table(group, plural)
	if t == nil {
		return nil, nil
	}
	return t, t.res
}

// table returns the table of a resource, or nil. It needs the lock.
func (s *Server) table(group, plural string) *table {
	return s.tables[schema.GroupResource{Group: group, Resource: plural}]
}

// sorted returns all tables in the order of group and plural name. It needs the lock.
func (s *Server) sorted() []*table {
	list := make([]*table, 0, len(s.tables))
	for _, t := range s.tables {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b *table) int {
		return slices.Compare([]string{a.res.Group, a.res.Plural}, []string{b.res.Group, b.res.Plural})
	})
	return list
}

// Compact forgets all past changes: a watch or a list from an earlier resourceVersion then gets 410 Gone. Running watches
// go on.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tables {
		t.log.forget(len(t.log.recent))
		t.log.floor = s.rv
	}
}

// EndWatches ends the running watches of a resource, given by its plural name in any group, or of all for "".
func (s *Server) EndWatches(plural string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tables {
		if plural == "" || t.res.Plural == plural {
			close(t.ended)
			t.ended = make(chan struct{})
		}
	}
}

// ensureNamespace makes a namespace that is not there. It is for New and Insert: it needs the lock or a server that
// nobody shares yet.
func (s *Server) ensureNamespace(name string) error {
	t := s.table("", "namespaces")
	if t == nil || t.get("", name) != nil {
		return nil
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": name},
		"spec":     map[string]any{"finalizers": []any{string(corev1.FinalizerKubernetes)}},
		"status":   map[string]any{"phase": string(corev1.NamespaceActive)},
	}}
	if err := t.res.initialise(u); err != nil {
		return err
	}
	_, err := s.put(t, nil, u)
	return err
}
