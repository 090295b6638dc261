package operations_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/sheetanchor/sheetanchor/operations"
)

// TestMain also makes the test binary a writer of its own process, see process_test.go.
func TestMain(m *testing.M) {
	if spec := os.Getenv(childEnv); spec != "" {
		if err := writer(context.Background(), spec, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if spec := os.Getenv(pollerEnv); spec != "" {
		if err := pollerProcess(context.Background(), spec, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// testKey is the owner of most tests' operations.
var testKey = operations.Key{Namespace: "app", Name: "nightly", UID: "uid-1"}

func newMap(t *testing.T, store operations.Store) *operations.Map {
	t.Helper()
	m, err := operations.NewMap(store, operations.BackupForm, operations.MapOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// contains reports whether the error's text has a part.
func contains(err error, part string) bool { return strings.Contains(err.Error(), part) }

// op returns an operation that runs.
func op(id string) operations.Operation {
	return operations.Operation{
		ID: id, Action: "test", Resource: operations.ResourceID{Resource: "persistentvolumeclaims", Namespace: "app", Name: id},
		Status: operations.Status{Phase: operations.PhaseInProgress},
	}
}

// mustUpdate stores a change.
func mustUpdate(t *testing.T, m *operations.Map, key operations.Key, fn func(*operations.List) error) operations.Record {
	t.Helper()
	rec, err := m.Update(t.Context(), key, fn)
	if err != nil {
		t.Fatalf("Update: %v", err)
	}
	return rec
}

// setPhase returns a change that moves one operation.
func setPhase(id string, phase operations.Phase) func(*operations.List) error {
	return func(l *operations.List) error {
		o, ok := l.Get(id)
		if !ok {
			return operations.ErrUnknownOperation
		}
		o.Status.Phase = phase
		return l.Set(o)
	}
}
