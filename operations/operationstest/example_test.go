package operationstest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/operations/operationstest"
)

// printer stands for the *testing.T of a test.
type printer struct{}

func (printer) Helper()                           {}
func (printer) Context() context.Context          { return context.Background() }
func (printer) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (printer) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// The store under test does not check what it says it checks.
func ExampleCase_Run() {
	forgetful := broken{Store: operations.NewMemoryStore()}
	forgetful.write = func(ctx context.Context, name string, data []byte, _ string) (string, error) {
		return overwrite(ctx, forgetful.Store, name, data)
	}
	for _, c := range operationstest.Cases() {
		if c.Name == "two-owners" {
			c.Run(printer{}, operationstest.Options{Open: func() (operations.Store, error) { return forgetful, nil }})
		}
	}
	// Output:
	// two-owners: Update of the deposed owner = <nil>, want ErrConflict
	// two-owners: the record is {Total:2 Running:2 Completed:0 Failed:0 Canceled:0 Abandoned:0}, <nil>, want {Total:1 Running:0 Completed:1 Failed:0 Canceled:0 Abandoned:0}
	// two-owners: Complete of who has loaded again = {Total:0 Running:0 Completed:0 Failed:0 Canceled:0 Abandoned:0}, operations of operationstest/conformance-two-owners-record (conformance-two-owners-record): 2 of 2 still running, want the same end
}

// The test of a store: every case, on the store as it is opened for it.
func ExampleRun() {
	_ = func(t *testing.T) { //nolint:thelper // it stands for: func TestStore(t *testing.T)
		operationstest.Run(t, operationstest.Options{Open: func() (operations.Store, error) { return operations.NewMemoryStore(), nil }})
	}
}
