package loadtest

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/vmware-tanzu/velero/pkg/itemoperation"
	veleroencode "github.com/vmware-tanzu/velero/pkg/util/encode"

	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/test/compare/internal/table"
	"github.com/sheetanchor/sheetanchor/test/compare/internal/velerotest"
)

// get is reading what a map remembers.
func get(t *testing.T, b *bench) {
	t.Helper()
	const size = 10_000
	key := keyOf(0)
	theirs := newVeleroMap(t, &velerotest.Objects{})
	theirs.PutOperationsForBackup(veleroOperations(key, size), key.Name)
	ours := newMap(t, &slowStore{})
	list := ourOperations(t, size)
	_, err := ours.Put(t.Context(), operations.Record{Key: key, List: list})
	must(t, err)
	velero := func() {
		got, err := theirs.GetOperationsForBackup(theirs.store, key.Name)
		if err != nil || len(got.Operations) != size {
			t.Errorf("Velero's map returned %d operations, %v", len(got.Operations), err)
		}
	}
	anchor := func() {
		got, err := ours.Get(t.Context(), key)
		if err != nil || got.List.Len() != size {
			t.Errorf("our map returned %d operations, %v", got.List.Len(), err)
		}
	}
	walk := func() {
		got, err := ours.Get(t.Context(), key)
		must(t, err)
		n := 0
		for op := range got.List.All() {
			if op.ID != "" {
				n++
			}
		}
		if n != size {
			t.Errorf("walked over %d operations", n)
		}
	}
	rounds, times := b.size(9, 5), 20
	perCall := func(f func()) func() time.Duration {
		return func() time.Duration {
			return cpu(func() {
				for range times {
					f()
				}
			}) / time.Duration(times)
		}
	}
	per, ourGet := medians(rounds, perCall(velero), perCall(anchor))
	b.row("Get of 10 000 operations: CPU", table.Time(per), table.Time(ourGet), table.Target{Kind: table.Less})
	b.row("the same and a look at each: CPU", table.Time(per), table.Time(median(rounds, perCall(walk))), table.Target{})
	allocs := testing.AllocsPerRun(5, velero)
	b.row("Get of 10 000 operations: allocations", table.Number(allocs), table.Number(testing.AllocsPerRun(5, anchor)), table.Target{Kind: table.Less})
	b.row("the same and a look at each: allocations", table.Number(allocs), table.Number(testing.AllocsPerRun(5, walk)), table.Target{})
	b.note("medians of %d rounds of %d calls. Both return a copy that the caller may change: Velero's is made at once, ours as it is read.", rounds, times)
}

// encode is writing the file.
func encode(t *testing.T, b *bench) {
	t.Helper()
	size := b.size(100_000, 20_000)
	theirs, ours := veleroOperations(keyOf(0), size), ourOperations(t, size)
	var veleroSize, ourSize int
	rounds := b.size(5, 9)
	velero, anchor := medians(rounds, func() time.Duration {
		return cpu(func() {
			buf, errs := encodeVelero(theirs.Operations)
			if errs != nil {
				t.Error(errs)
				return
			}
			veleroSize = buf.Len()
		})
	}, func() time.Duration {
		return cpu(func() {
			data, err := operations.BackupForm.Encode(keyOf(0), ours)
			if err != nil {
				t.Error(err)
			}
			ourSize = len(data)
		})
	})
	what := "Encode of " + table.Number(size).String() + " operations: "
	b.row(what+"CPU", table.Time(velero), table.Time(anchor), table.Target{Kind: table.TimesBetter, Limit: 1.2})
	b.row(what+"size", table.Size(veleroSize), table.Size(ourSize), table.Target{Kind: table.Within, Limit: 0.05})
	b.note("medians of %d rounds; the same operations in both, each with two post items, measured in turn.", rounds)
}

func encodeVelero(ops []*itemoperation.BackupOperation) (*bytes.Buffer, []error) {
	return veleroencode.ToJSONGzip(ops, "backup item operations list")
}

// decode is reading the file, with keys that neither knows.
func decode(t *testing.T, b *bench) {
	t.Helper()
	size := b.size(100_000, 20_000)
	key := keyOf(0)
	file := withUnknownKeys(t, veleroOperations(key, size).Operations)
	objects := &velerotest.Objects{}
	store, err := objects.Store()
	must(t, err)
	must(t, store.PutBackupItemOperations(key.Name, bytes.NewReader(file)))
	rounds := b.size(5, 9)
	var list operations.List
	velero, anchor := medians(rounds, func() time.Duration {
		return cpu(func() {
			ops, err := store.GetBackupItemOperations(key.Name)
			if err != nil || len(ops) != size {
				t.Errorf("Velero's store returned %d operations, %v", len(ops), err)
			}
		})
	}, func() time.Duration {
		list = operations.List{} // as Velero's of the round before is dropped
		return cpu(func() {
			var err error
			if list, err = operations.BackupForm.Decode(key, file); err != nil || list.Len() != size {
				t.Errorf("Decode returned %d operations, %v", list.Len(), err)
			}
		})
	})
	if kept := keptKeys(t, key, list); kept != 2*size {
		t.Errorf("%d of %d unknown keys were kept", kept, 2*size)
	}
	b.row("Decode of "+table.Number(size).String()+" operations, unknown keys kept: CPU", table.Time(velero), table.Time(anchor), table.Target{Kind: table.PartOf, Limit: 1.2})
	b.note("medians of %d rounds, measured in turn; two post items and two unknown keys in each operation, which ours keeps and Velero drops.", rounds)
}

const unknownKey = "addedByANewerRelease"

// withUnknownKeys is the file of the operations, each with a key that nobody knows in its spec and in its status.
func withUnknownKeys(t *testing.T, ops []*itemoperation.BackupOperation) []byte {
	t.Helper()
	plain, err := json.Marshal(ops)
	must(t, err)
	for _, part := range []string{"spec", "status"} {
		from := fmt.Appendf(nil, `%q:{`, part)
		plain = bytes.ReplaceAll(plain, from, fmt.Appendf(from, `%q:{"since":[1,2]},`, unknownKey))
	}
	var buf bytes.Buffer
	zip := gzip.NewWriter(&buf)
	_, err = zip.Write(plain)
	must(t, err)
	must(t, zip.Close())
	return buf.Bytes()
}

// keptKeys counts the unknown keys in what ours writes.
func keptKeys(t *testing.T, key operations.Key, list operations.List) int {
	t.Helper()
	data, err := operations.BackupForm.Encode(key, list)
	must(t, err)
	zip, err := gzip.NewReader(bytes.NewReader(data))
	must(t, err)
	plain, err := io.ReadAll(zip)
	must(t, err)
	return bytes.Count(plain, []byte(unknownKey))
}

// memory is what the maps hold of many backups, read from their stores as after a restart.
func memory(t *testing.T, b *bench) {
	t.Helper()
	backups, each := b.size(1000, 200), 100
	objects := &velerotest.Objects{}
	theirs := newVeleroMap(t, objects)
	store := &slowStore{}
	ours := newMap(t, store)
	for i := range backups {
		buf, errs := encodeVelero(veleroOperations(keyOf(i), each).Operations)
		must(t, errors.Join(errs...))
		must(t, theirs.store.PutBackupItemOperations(keyOf(i).Name, bytes.NewReader(buf.Bytes())))
		_, err := store.Write(t.Context(), operations.BackupForm.FileName(keyOf(i).Name), buf.Bytes(), "")
		must(t, err)
	}
	before := live()
	for i := range backups {
		if ops, err := theirs.GetOperationsForBackup(theirs.store, keyOf(i).Name); err != nil || len(ops.Operations) != each {
			t.Fatalf("Velero's map read %d operations, %v", len(ops.Operations), err)
		}
	}
	velero := live() - before
	before = live()
	for i := range backups {
		if rec, err := ours.Get(t.Context(), keyOf(i)); err != nil || rec.List.Len() != each {
			t.Fatalf("our map read %d operations, %v", rec.List.Len(), err)
		}
	}
	anchor := live() - before
	runtime.KeepAlive(theirs)
	runtime.KeepAlive(ours)
	b.row(table.Number(backups).String()+" backups × 100 operations: live heap", table.Size(velero), table.Size(anchor), table.Target{})
	b.note("both maps after reading the same files, the stores not counted.")
}

// scaleOperations is one backup with more and more operations.
func scaleOperations(t *testing.T, b *bench) {
	t.Helper()
	sizes := []int{100, 1000, 10_000, 100_000}
	if b.short {
		sizes = sizes[:3]
	}
	var times, files []table.Point
	for _, size := range sizes {
		theirs, ours := veleroOperations(keyOf(0), size), ourOperations(t, size)
		loops := max(1, 2000/size)
		var veleroSize, ourSize int
		per := func(f func()) func() time.Duration {
			return func() time.Duration {
				return cpu(func() {
					for range loops {
						f()
					}
				}) / time.Duration(loops)
			}
		}
		velero, anchor := medians(3, per(func() {
			buf, errs := encodeVelero(theirs.Operations)
			if errs != nil {
				t.Error(errs)
				return
			}
			veleroSize = buf.Len()
		}), per(func() {
			data, err := operations.BackupForm.Encode(keyOf(0), ours)
			if err != nil {
				t.Error(err)
			}
			ourSize = len(data)
		}))
		times = append(times, table.Point{N: size, Velero: table.Time(velero), Ours: table.Time(anchor)})
		files = append(files, table.Point{N: size, Velero: table.Size(veleroSize), Ours: table.Size(ourSize)})
	}
	first, last := times[0], times[len(times)-1]
	growth := func(f, g *table.Figure) float64 {
		return (g.Value / float64(last.N)) / (f.Value / float64(first.N))
	}
	b.noisy(fmt.Sprintf("CPU of an operation in %d over one in %d", last.N, first.N), table.Number(growth(first.Velero, last.Velero)), table.Number(growth(first.Ours, last.Ours)), table.Target{Kind: table.AtMost, Limit: 2})
	b.curve("CPU of an encode", times)
	b.curve("size of the file", files)
}
