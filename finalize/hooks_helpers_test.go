package finalize_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/finalize"
	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

var (
	_ finalize.Releaser   = (*csisnapshot.Snapshotter)(nil)
	_ finalize.Operations = (*operations.Map)(nil)
	_ finalize.Document   = (*operations.Slot)(nil)
	_ finalize.Document   = (*memory)(nil)
)

var (
	owner = csisnapshot.Owner{Namespace: "ops", Name: "nightly", UID: "backup-uid"}
	key   = operations.Key{Namespace: "ops", Name: "nightly", UID: "backup-uid"}
	began = time.Date(2026, 5, 2, 10, 0, 0, 0, time.UTC)
)

// fakeSnapshots is a Releaser over snapshots that are there or not.
type fakeSnapshots struct {
	mu     sync.Mutex                // protects what follows
	there  map[csisnapshot.Ref]bool  // the objects
	data   map[csisnapshot.Ref]bool  // the physical snapshots
	faults map[csisnapshot.Ref]error // of a removal
	asked  []string
	err    error // instead of a report
	panics bool
}

func newFakeSnapshots(names ...string) *fakeSnapshots {
	f := &fakeSnapshots{there: map[csisnapshot.Ref]bool{}, data: map[csisnapshot.Ref]bool{}, faults: map[csisnapshot.Ref]error{}}
	for _, n := range names {
		f.there[ref(n)], f.data[ref(n)] = true, true
	}
	return f
}

func (f *fakeSnapshots) Release(ctx context.Context, o csisnapshot.Owner, refs ...csisnapshot.Ref) (*csisnapshot.ReleaseReport, error) {
	return f.remove(ctx, o, "release", refs)
}

func (f *fakeSnapshots) Destroy(ctx context.Context, o csisnapshot.Owner, refs ...csisnapshot.Ref) (*csisnapshot.ReleaseReport, error) {
	return f.remove(ctx, o, "destroy", refs)
}

func (f *fakeSnapshots) remove(_ context.Context, o csisnapshot.Owner, verb string, refs []csisnapshot.Ref) (*csisnapshot.ReleaseReport, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.panics {
		panic("nil map")
	}
	if f.err != nil || o != owner {
		return nil, f.err
	}
	report := &csisnapshot.ReleaseReport{}
	for _, r := range refs {
		f.asked = append(f.asked, verb+" "+r.String())
		item := csisnapshot.Removal{Ref: r, Gone: true, Err: f.faults[r]}
		if item.Err == nil {
			delete(f.there, r)
			if verb == "destroy" {
				delete(f.data, r)
			}
		}
		report.Items = append(report.Items, item)
	}
	return report, report.Err()
}

// calls returns what was asked, sorted: releases and destructions run at the same time.
func (f *fakeSnapshots) calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(slices.Values(f.asked))
}

func ref(name string) csisnapshot.Ref { return csisnapshot.Ref{Namespace: "app", Name: name} }

// operation returns the operation of a snapshot in a phase.
func operation(snapshot string, phase operations.Phase, text string) operations.Operation {
	return operations.Operation{
		ID: csisnapshot.OperationID(ref(snapshot), began), Action: csisnapshot.ActionName,
		Resource: operations.ResourceID{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshots", Namespace: "app", Name: snapshot},
		Status:   operations.Status{Phase: phase, Error: text, Updated: new(began.Add(time.Minute))},
	}
}

// opsMap returns a map that holds ops.
func opsMap(tb testing.TB, ops ...operations.Operation) *operations.Map {
	tb.Helper()
	m, err := operations.NewMap(operations.NewMemoryStore(), operations.BackupForm, operations.MapOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := m.Update(tb.Context(), key, func(l *operations.List) error { return l.Add(ops...) }); err != nil {
		tb.Fatal(err)
	}
	return m
}

// cutRecord is the record of a volume whose snapshot, of the same name, is cut.
func cutRecord(name string) volumeinfo.BackupRecord {
	return volumeinfo.BackupRecord{
		PVCNamespace: "app", PVCName: "claim-" + name, PVCUID: "uid-" + name, BackupMethod: volumeinfo.CSISnapshot, PreserveLocalSnapshot: true,
		CSISnapshotInfo: &volumeinfo.CSISnapshotInfo{SnapshotHandle: "h-" + name, OperationID: csisnapshot.OperationID(ref(name), began)},
	}
}

func recordsDoc(tb testing.TB, records ...volumeinfo.BackupRecord) *memory {
	tb.Helper()
	data, err := volumeinfo.Encode(records)
	if err != nil {
		tb.Fatal(err)
	}
	return &memory{data: data}
}

func recordsOf(tb testing.TB, doc *memory) []volumeinfo.BackupRecord {
	tb.Helper()
	records, err := volumeinfo.DecodeBackup(doc.data, volumeinfo.Limits{})
	if err != nil {
		tb.Fatal(err)
	}
	return records
}

// runOnce runs hooks to their end in a new process without a checkpoint.
func runOnce(tb testing.TB, hooks ...finalize.Hook) finalize.Report {
	tb.Helper()
	report, err := mustNew(tb, hooks, finalize.Options{}).Run(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return report
}

var listAll metav1.ListOptions

func snapshotResource(kind string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "snapshot.storage.k8s.io", Version: "v1", Resource: kind}
}
