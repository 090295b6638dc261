package operations_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/sheetanchor/sheetanchor/operations"
)

// O10, O14: the parent stands in our object beside Velero's keys, and survives a round trip in both forms.
func TestParentIsStored(t *testing.T) {
	t.Parallel()
	for _, form := range []operations.Form{operations.BackupForm, operations.RestoreForm} {
		child := op("child")
		child.Parent = "parent"
		list, err := operations.NewList(op("parent"), child)
		if err != nil {
			t.Fatal(err)
		}
		data, err := form.Encode(testKey, list)
		if err != nil {
			t.Fatal(err)
		}
		got, err := form.Decode(testKey, data)
		if err != nil || !got.Equal(list) {
			t.Errorf("%v: decoded %v, %v, want what was encoded", form, got, err)
		}
		if o, _ := got.Get("child"); o.Parent != "parent" {
			t.Errorf("%v: Parent = %q after a round trip", form, o.Parent)
		}
		var entries []struct {
			Status map[string]json.RawMessage `json:"status"`
		}
		zip, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(zip)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &entries); err != nil {
			t.Fatal(err)
		}
		if got, want := string(entries[1].Status["sheetanchor"]), `{"parent":"parent"}`; got != want {
			t.Errorf("%v: our object is %s, want %s", form, got, want)
		}
		if _, ok := entries[0].Status["sheetanchor"]; ok {
			t.Errorf("%v: an operation without parent has our object", form)
		}
	}
	bad := op("bad")
	bad.Parent = "\xff"
	if _, err := operations.NewList(bad); !errors.Is(err, operations.ErrMalformed) {
		t.Errorf("NewList() = %v, want ErrMalformed for a parent that is not text", err)
	}
	other := op("child")
	if same := op("child"); !other.Equal(same) {
		t.Error("equal operations differ")
	}
	other.Parent = "parent"
	if other.Equal(op("child")) {
		t.Error("operations with different parents are equal")
	}
}
