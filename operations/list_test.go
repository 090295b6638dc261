package operations_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/operations"
)

func ids(l operations.List) []string {
	var out []string
	for o := range l.All() {
		out = append(out, o.ID)
	}
	return out
}

func TestListAddMergeSet(t *testing.T) {
	t.Parallel()
	var l operations.List
	if err := l.Add(op("a"), op("b")); err != nil {
		t.Fatal(err)
	}
	before := l
	bad := map[string]struct {
		change func() error
		want   error
	}{
		"known ID":         {func() error { return l.Add(op("c"), op("a")) }, operations.ErrDuplicate},
		"twice in one":     {func() error { return l.Add(op("c"), op("c")) }, operations.ErrDuplicate},
		"no ID":            {func() error { return l.Add(op("c"), op("")) }, operations.ErrMalformed},
		"no ID, merged":    {func() error { return l.Merge(op("c"), op("")) }, operations.ErrMalformed},
		"not UTF-8":        {func() error { return l.Add(op("\xff")) }, operations.ErrMalformed},
		"time out of JSON": {func() error { return l.Add(timed("c", time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))) }, operations.ErrMalformed},
		"unknown ID":       {func() error { return l.Set(op("a"), op("c")) }, operations.ErrUnknownOperation},
		"set without ID":   {func() error { return l.Set(op("")) }, operations.ErrMalformed},
	}
	for name, tc := range bad {
		if err := tc.change(); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
		if !l.Equal(before) {
			t.Errorf("%s: the refused change is in the list: %v", name, ids(l))
		}
	}
	done := op("b")
	done.Status.Phase = operations.PhaseCompleted
	if err := l.Set(done); err != nil {
		t.Fatal(err)
	}
	if err := l.Merge(op("b"), op("c"), op("c")); err != nil { // registering twice is registering once
		t.Fatal(err)
	}
	if got, _ := l.Get("b"); got.Status.Phase != operations.PhaseCompleted {
		t.Errorf("Merge changed a known operation: %+v", got)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, ids(l)); diff != "" {
		t.Errorf("IDs (-want +got):\n%s", diff)
	}
	if got := ids(before); len(got) != 2 {
		t.Errorf("the copy changed with the list: %v", got)
	}
	if _, ok := l.Get("d"); ok {
		t.Error("Get of an unknown ID found something")
	}
}

func timed(id string, at time.Time) operations.Operation {
	o := op(id)
	o.Status.Created = &at
	return o
}

// Copies of a list are independent, also while the list grows past what is indexed, and each finds its own.
func TestListCopiesAreIndependent(t *testing.T) {
	t.Parallel()
	var base operations.List
	for i := range 100 {
		if err := base.Add(op(strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
		left, right := base, base
		if err := errors.Join(left.Add(op("left")), right.Add(op("right"))); err != nil {
			t.Fatal(err)
		}
		for id, want := range map[string][3]bool{"left": {false, true, false}, "right": {false, false, true}, "0": {true, true, true}, strconv.Itoa(i): {true, true, true}} {
			for j, l := range []operations.List{base, left, right} {
				if got, ok := l.Get(id); ok != want[j] || ok && got.ID != id {
					t.Fatalf("%d operations, list %d: Get(%s) = %q, %v", i, j, id, got.ID, ok)
				}
			}
		}
	}
}

// O12: counts and the list of what failed are derived from the operations. What is not known to have
// ended runs. ops-24: the work to be done again is exactly what did not end well.
func TestListSummary(t *testing.T) {
	t.Parallel()
	phases := []operations.Phase{
		"", "FromTheFuture", operations.PhaseNew, operations.PhaseInProgress, operations.PhaseCompleted, operations.PhaseCompleted,
		operations.PhaseFailed, operations.PhaseFailed, operations.PhaseFailed, operations.PhaseCanceled, operations.PhaseAbandoned,
	}
	var l operations.List
	for i, phase := range phases {
		if err := l.Add(operations.Operation{ID: fmt.Sprint(i), Action: "a", Status: operations.Status{Phase: phase}}); err != nil {
			t.Fatal(err)
		}
	}
	want := operations.Summary{Total: 11, Running: 4, Completed: 2, Failed: 3, Canceled: 1, Abandoned: 1}
	if got := l.Summary(); got != want {
		t.Errorf("Summary() = %+v, want %+v", got, want)
	}
	var failed []string
	for _, o := range l.Failures() {
		failed = append(failed, o.ID)
	}
	if diff := cmp.Diff([]string{"6", "7", "8", "9", "10"}, failed); diff != "" {
		t.Errorf("Failures() (-want +got):\n%s", diff)
	}
}

// What is kept is what the document can hold: whole seconds in UTC, and text.
func TestListKeepsWhatTheDocumentHolds(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("east", 3600)
	o := timed("a", time.Date(2026, 1, 2, 3, 4, 5, 678, zone))
	o.Status.Started = new(time.Time{})
	o.Status.Error = "bad \xff byte"
	l, err := operations.NewList(o)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := l.Get("a")
	if want := time.Date(2026, 1, 2, 2, 4, 5, 0, time.UTC); *got.Status.Created != want || got.Status.Started != nil || got.Status.Error != "bad \uFFFD byte" {
		t.Errorf("Get() = %+v, created %v, want seconds in UTC, no zero time, text", got.Status, got.Status.Created)
	}
	data, err := operations.BackupForm.Encode(testKey, l)
	if err != nil {
		t.Fatal(err)
	}
	back, err := operations.BackupForm.Decode(testKey, data)
	if err != nil || !back.Equal(l) {
		t.Errorf("after a restart the list differs: %v", err)
	}
}

func TestKeyValidate(t *testing.T) {
	t.Parallel()
	good := []operations.Key{testKey, {Name: "a.b-c", UID: "0b4f9c1e-7a2d-4c1b-9b9e-0f3c5d2a1e11"}}
	for _, k := range good {
		if err := k.Validate(); err != nil {
			t.Errorf("Validate(%v) = %v", k, err)
		}
	}
	err := operations.Key{Namespace: "Bad", Name: "", UID: "a b"}.Validate()
	for _, want := range []string{"name", "namespace", "UID"} {
		if err == nil || !contains(err, "key "+want) {
			t.Errorf("Validate() = %v, want it to name the %s", err, want)
		}
	}
}
