package finalize_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/finalize"
	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

// disk is a store of documents in which a process may die after any write.
type disk struct {
	mu      sync.Mutex // protects what follows
	docs    map[string][]byte
	writes  []string
	crashAt int
	dead    bool
}

type file struct {
	disk *disk
	name string
}

func (f file) Load(context.Context) ([]byte, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.dead {
		return nil, errCrash
	}
	return slices.Clone(f.disk.docs[f.name]), nil
}

func (f file) Save(_ context.Context, data []byte) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.dead {
		return errCrash
	}
	f.disk.docs[f.name] = slices.Clone(data)
	f.disk.writes = append(f.disk.writes, f.name)
	if len(f.disk.writes) == f.disk.crashAt {
		f.disk.dead = true
		return errCrash
	}
	return nil
}

// ended is what a finished backup leaves behind.
type ended struct {
	Records  []string
	Messages int      // in the file of results; their texts hold UIDs and times
	Physical []string // claims of which the storage holds a snapshot
	Objects  int      // snapshots and contents in the cluster
	Errors   int
	Lives    int
}

// backUp takes a backup of four volumes, of which one becomes ready, one is cut and never ready, one is never cut and one
// is no CSI volume, and finalizes it in as many lives as it takes when the first dies after its crashAt-th write.
func backUp(t *testing.T, crashAt int) (ended, []string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	claim := func(name string) backuptest.Claim { return backuptest.Claim{Namespace: "app", Name: name} }
	nfs := claim("nfs")
	nfs.NFS = true
	cluster := backuptest.New(t, backuptest.Options{Objects: backuptest.Objects(
		claim("good"), claim("slow"), claim("bad"), nfs, backuptest.SnapshotClass{Default: true},
	)})
	client, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	driver := backuptest.NewDriver(backuptest.DriverOptions{})
	controller := backuptest.NewSnapshotController(client, driver, backuptest.ControllerOptions{Scripts: map[string]backuptest.Script{
		"good": {CutAfter: time.Second, ReadyAfter: 5 * time.Second},
		"slow": {ReadyAfter: 10_000 * time.Hour},
		"bad":  {Errors: []backuptest.DriverError{{Code: "InvalidArgument", Text: "no such volume"}}},
	}})
	var running sync.WaitGroup
	running.Go(func() {
		if err := controller.Run(ctx); err != nil {
			t.Errorf("controller: %v", err)
		}
	})
	defer func() { stop(); running.Wait() }()

	core, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	snaps, err := csisnapshot.New(core, csisnapshot.NewDynamic(client), csisnapshot.Options{Wait: csisnapshot.WaitOptions{Timeout: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := snaps.Plan(ctx, "app")
	if err != nil {
		t.Fatal(err)
	}
	report, err := snaps.Cut(ctx, owner, plan)
	if err != nil {
		t.Fatal(err)
	}
	d := &disk{docs: map[string][]byte{}}
	records, err := volumeinfo.Encode(finalize.VolumeRecords(report))
	if err != nil {
		t.Fatal(err)
	}
	d.docs["volumeinfo"], d.crashAt = records, crashAt
	ops := opsMap(t, report.Operations()...)
	poller, err := operations.NewPoller(ops, map[string]operations.Action{csisnapshot.ActionName: snaps.Action()}, operations.PollerOptions{Deadline: 2 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := poller.Run(ctx, key); err != nil {
		t.Fatal(err)
	}
	end := finish(t, d, snaps, ops)
	for _, s := range driver.Snapshots() {
		end.Physical = append(end.Physical, s.Claim.Name)
	}
	slices.Sort(end.Physical)
	for _, kind := range []string{"volumesnapshots", "volumesnapshotcontents"} {
		list, err := client.Resource(snapshotResource(kind)).List(ctx, listAll)
		if err != nil {
			t.Fatal(err)
		}
		end.Objects += len(list.Items)
	}
	return end, d.writes
}

// finish finalizes in one life after the other.
func finish(t *testing.T, d *disk, snaps *csisnapshot.Snapshotter, ops *operations.Map) (end ended) {
	t.Helper()
	for {
		end.Lives++
		release := finalize.ReleaseSnapshots(snaps, owner, ops, key)
		volumes := finalize.WriteVolumeInfo(file{d, "volumeinfo"}, ops, key, release.Name)
		results := finalize.WriteResults(file{d, "results"}, ops, key, volumes.Name)
		r := mustNew(t, []finalize.Hook{results, volumes, release}, finalize.Options{Checkpoint: file{d, "checkpoint"}, UID: string(owner.UID)})
		res, err := r.Step(t.Context())
		for err == nil && !res.Done && !d.dead {
			time.Sleep(res.RequeueAfter)
			res, err = r.Step(t.Context())
		}
		if d.dead {
			d.dead, d.crashAt = false, 0 // the process is gone, the next one starts
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		end.Errors = res.Report.Errors()
		break
	}
	records, err := volumeinfo.DecodeBackup(d.docs["volumeinfo"], volumeinfo.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		handle := r.Handle() != ""
		if handle != (r.CSISnapshotInfo != nil && r.CSISnapshotInfo.ContentVersion != "") { // vol-14
			t.Errorf("record %s has handle %q of no known version of its content", r.Volume(), r.Handle())
		}
		end.Records = append(end.Records, fmt.Sprintf("%s result %q, skipped %v, handle %v, restorable %v", r.Volume(), r.Result, r.Skipped, handle, r.Restorable() == nil))
	}
	messages, err := finalize.DecodeResults(d.docs["results"], 0)
	if err != nil {
		t.Fatal(err)
	}
	end.Messages = messages.Errors.Len() + messages.Warnings.Len()
	return end
}

// F2, F5, fin-20: the ready-made hooks on a real snapshotter: what became ready is kept and its objects go, all else goes,
// and a process that dies after any write of the three documents leaves the same behind.
func TestBackupEndsTheSame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		want, writes := backUp(t, 0)
		wantRecords := []string{
			`app/bad result "failed", skipped false, handle false, restorable false`,
			`app/good result "succeeded", skipped false, handle true, restorable true`,
			`app/nfs result "", skipped true, handle false, restorable false`,
			`app/slow result "failed", skipped false, handle true, restorable false`,
		}
		if diff := cmp.Diff(wantRecords, want.Records); diff != "" {
			t.Errorf("records (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"good"}, want.Physical); diff != "" || want.Objects != 0 || want.Errors != 0 {
			t.Errorf("%d objects, %d errors, physical snapshots (-want +got):\n%s", want.Objects, want.Errors, diff)
		}
		if want.Messages != 2 {
			t.Errorf("%d messages in the results, want one for each failed operation", want.Messages)
		}
		for k := 1; k <= len(writes); k++ {
			got, again := backUp(t, k)
			want.Lives = 2
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("died after write %d (%s): (-want +got):\n%s", k, writes[k-1], diff)
			}
			if diff := cmp.Diff(writes, again); diff != "" {
				t.Errorf("died after write %d: writes of both lives (-want +got):\n%s", k, diff)
			}
		}
	})
}
