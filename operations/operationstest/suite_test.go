package operationstest_test

import (
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/operations/operationstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type open = func() (operations.Store, error)

func writeOnce(working, final operations.Store) open {
	return func() (operations.Store, error) { return operations.NewWriteOnceStore(working, final) }
}

// O7, O8: every store that ships keeps the contract, and so does one over conditional HTTP puts, as S3 and its like have
// them.
func TestStores(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	memory := operations.NewMemoryStore()
	server := &bucket{objects: map[string][]byte{}}
	stores := map[string]operationstest.Options{
		"memory": {Open: func() (operations.Store, error) { return memory, nil }},
		"file": {
			Open: func() (operations.Store, error) {
				return operations.NewFileStore(dir, operations.FileOptions{MaxBytes: 300_000})
			},
			MaxBytes: 300_000,
		},
		"writeonce":          {Open: writeOnce(operations.NewMemoryStore(), operations.NewMemoryStore())},
		"writeonce-unfenced": {Open: writeOnce(operations.NewMemoryStore(), unfenced{operations.NewMemoryStore()})},
		"http":               {Open: func() (operations.Store, error) { return newHTTPStore(server), nil }},
		"unfenced":           {Open: func() (operations.Store, error) { return unfenced{memory}, nil }, Run: "unfenced"},
	}
	for name, opts := range stores {
		for _, c := range operationstest.Cases() {
			t.Run(name+"/"+c.Name, func(t *testing.T) {
				t.Parallel()
				c.Run(t, opts)
			})
		}
	}
}

// O8: the suite needs no real time: a hanging store lets virtual time go on.
func TestSuiteInVirtualTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &bucket{objects: map[string][]byte{}}
		operationstest.Run(t, operationstest.Options{Open: func() (operations.Store, error) { return newHTTPStore(server), nil }})
	})
}
