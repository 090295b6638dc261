package operations_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sheetanchor/sheetanchor/operations"
)

// An operation that says nothing is told what is missing first: its ID.
func TestRegisterOfNothingAsksForTheID(t *testing.T) {
	m, err := operations.NewMap(operations.NewMemoryStore(), operations.BackupForm, operations.MapOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := operations.NewPoller(m, nil, operations.PollerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	err = p.Register(t.Context(), operations.Key{Namespace: "shop", Name: "nightly", UID: "1"}, operations.Operation{})
	if !errors.Is(err, operations.ErrMalformed) || !strings.Contains(err.Error(), "no ID") {
		t.Errorf("Register of the zero Operation = %v, want ErrMalformed and that there is no ID", err)
	}
}
