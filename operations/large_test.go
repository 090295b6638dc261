package operations_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sheetanchor/sheetanchor/internal/race"
	"github.com/sheetanchor/sheetanchor/operations"
)

// O13: a document of 100 000 operations of a CSI driver, each with its snapshot and its content as post items and with the
// longest names of namespaces and claims that are usual, is within the default limit, for writing and for reading.
func TestManyOperationsLoad(t *testing.T) {
	t.Parallel()
	const whole = 100_000
	n := whole
	if race.Enabled {
		n = whole / 100 // the size is what counts: the same in every hundredth
	}
	ops := make([]operations.Operation, n)
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	namespace, group := strings.Repeat("n", 63), "snapshot.storage.k8s.io"
	for i := range ops {
		snapshot := operations.ResourceID{Group: group, Resource: "volumesnapshots", Namespace: namespace, Name: fmt.Sprintf("velero-%057d-abcde", i)}
		content := operations.ResourceID{Group: group, Resource: "volumesnapshotcontents", Name: fmt.Sprintf("snapcontent-00000000-0000-4000-8000-%012d", i)}
		ops[i] = operations.Operation{
			ID: namespace + "/" + snapshot.Name + "/2026-03-04T05:06:07Z", Action: "velero.io/csi-volumesnapshot-backupper",
			Resource: snapshot, PostItems: []operations.ResourceID{snapshot, content},
			Status: operations.Status{
				Phase: operations.PhaseCompleted, Completed: 1 << 40, Total: 1 << 40, Units: "Bytes", Description: "waiting for the driver",
				Created: new(at), Started: new(at), Updated: new(at),
			},
		}
	}
	list, err := operations.NewList(ops...)
	if err != nil {
		t.Fatal(err)
	}
	key := operations.Key{Namespace: "velero", Name: strings.Repeat("b", 63), UID: "00000000-0000-4000-8000-000000000001"}
	data, err := operations.BackupForm.Encode(key, list)
	if err != nil {
		t.Fatal(err)
	}
	if size := len(gunzip(t, data)) / n * whole; size > operations.DefaultMaxBytes {
		t.Errorf("%d operations are %d bytes, over the limit of %d", whole, size, operations.DefaultMaxBytes)
	} else {
		t.Logf("%d operations are %d bytes", whole, size)
	}
	back, err := operations.BackupForm.Decode(key, data)
	if err != nil || !back.Equal(list) {
		t.Errorf("Decode = %d operations, %v, want the %d that were written", back.Len(), err, n)
	}
}
