package operationstest

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"github.com/sheetanchor/sheetanchor/operations"
)

// TB is the part of a testing.TB that the cases use. This package does not link package testing.
type TB interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
	// Fatalf does not return.
	Fatalf(format string, args ...any)
}

// Options say which store is checked. Open is required.
type Options struct {
	// Open returns the store. Every call opens the same storage again, as another process would. It is called from several
	// goroutines at once.
	Open func() (operations.Store, error)
	// Run is part of every document's name, so that what an earlier run left in the storage is not met. It must be one
	// that the name of a Kubernetes object can begin with. Defaults to "conformance".
	Run string
	// MaxBytes is the largest document that the store takes: one of that size must be kept, and one more byte must be
	// [operations.ErrTooLarge]. Zero leaves that unchecked.
	MaxBytes int
}

// Case is one part of the contract.
type Case struct {
	// Name is short, without spaces.
	Name string
	// Reason says what goes wrong for a user when the case fails.
	Reason string

	run func(c *check)
}

// Cases returns all cases. The caller owns the slice.
func Cases() []Case {
	return []Case{
		{"contract", "a record is lost when a store does not check what it was promised to check", contract},
		{"documents", "a record that is not kept to the byte cannot be read any more", documents},
		{"names", "two backups must not share a document, and none may leave the store's place", docNames},
		{"size", "a record that outgrows the store must be an error before anything is lost", size},
		{"removal", "what is removed must be gone, and what has changed meanwhile must not be removed", removal},
		{"ended-context", "a process that shuts down must neither hang nor write", endedContext},
		{"concurrent-creates", "of several writers that find nothing exactly one may create", concurrentCreates},
		{"concurrent-updates", "an update of one replica must not swallow that of another", concurrentUpdates},
		{"concurrent-loads", "however many ask, a record is read once and all get the same", concurrentLoads},
		{"two-owners", "a deposed leader must not overwrite a record that has ended", twoOwners},
		{"stale-reads", "an old read, as from a cache, must end in a conflict, not in a lost update", staleReads},
		{"lost-answers", "a write without answer is done once, and never reported as failed when it was done", lostAnswers},
		{"crashes", "after a crash at any call the record is whole, and the next process ends the work", crashes},
		{"hanging", "a store that hangs on one backup must delay no other, and must let go when the context ends", hanging},
		{"hostile-record", "a record that cannot be read is never overwritten", hostileRecord},
	}
}

// Run runs all cases, one after another.
func Run(t TB, opts Options) {
	t.Helper()
	for _, c := range Cases() {
		c.Run(t, opts)
	}
}

// Run runs the case.
func (c Case) Run(t TB, opts Options) {
	t.Helper()
	if opts.Run == "" {
		opts.Run = "conformance"
	}
	if c.run == nil || opts.Open == nil {
		t.Fatalf("operationstest: %s", errors.Join(
			fault(c.run == nil, "the case was not made by Cases"), fault(opts.Open == nil, "option Open is nil")))
		return
	}
	c.run(&check{TB: t, name: c.Name, opts: opts})
}

func fault(is bool, text string) error {
	if is {
		return errors.New(text)
	}
	return nil
}

// check is one run of a case.
type check struct {
	TB

	name string
	opts Options
}

// errorf reports a fault of the store.
func (c *check) errorf(format string, args ...any) {
	c.Helper()
	c.Errorf("%s: "+format, append([]any{c.name}, args...)...)
}

// fatalf reports a fault of the store after which the case cannot go on.
func (c *check) fatalf(format string, args ...any) {
	c.Helper()
	c.Fatalf("%s: "+format, append([]any{c.name}, args...)...)
}

// open opens the store once more.
func (c *check) open() operations.Store {
	c.Helper()
	s, err := c.opts.Open()
	if err != nil || s == nil {
		c.fatalf("Open = %v, %v, want a store", s, err)
	}
	return s
}

// openMap opens a map on a store, as a new process does.
func (c *check) openMap(s operations.Store) *operations.Map {
	c.Helper()
	m, err := operations.NewMap(s, operations.BackupForm, operations.MapOptions{})
	if err != nil {
		c.fatalf("NewMap = %v", err)
	}
	return m
}

// document returns the name of a document of this case.
func (c *check) document(name string) string { return c.opts.Run + "/" + c.name + "/" + name }

// key returns the owner of a record of this case.
func (c *check) key(name string) operations.Key {
	full := c.opts.Run + "-" + c.name + "-" + name
	return operations.Key{Namespace: "operationstest", Name: full, UID: types.UID(full)}
}

// fenced reports whether the store promises all that conflicts need.
func fenced(s operations.Store) bool {
	caps := s.Capabilities()
	return caps.ConditionalCreate && caps.ConditionalReplace
}

// operation returns an operation.
func operation(id string, phase operations.Phase) operations.Operation {
	return operations.Operation{
		ID: id, Action: "operationstest", Resource: operations.ResourceID{Resource: "persistentvolumeclaims", Namespace: "app", Name: id},
		Status: operations.Status{Phase: phase},
	}
}

// merge returns a change that adds operations that run, if they are not there.
func merge(ids ...string) func(*operations.List) error {
	return func(l *operations.List) error {
		for _, id := range ids {
			if err := l.Merge(operation(id, operations.PhaseInProgress)); err != nil {
				return err
			}
		}
		return nil
	}
}

// finish returns a change that completes an operation.
func finish(id string) func(*operations.List) error {
	return func(l *operations.List) error {
		return l.Set(operation(id, operations.PhaseCompleted))
	}
}
