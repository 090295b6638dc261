package driver_test

import (
	"slices"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/test/e2e/driver"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"
)

// takeGroup asks for a group.
func (f *fixture) takeGroup(t *testing.T, name string, volumes ...string) (*csi.VolumeGroupSnapshot, error) {
	t.Helper()
	resp, err := f.group.CreateVolumeGroupSnapshot(t.Context(), &csi.CreateVolumeGroupSnapshotRequest{Name: name, SourceVolumeIds: volumes})
	return resp.GetGroupSnapshot(), err
}

func memberIDs(g *csi.VolumeGroupSnapshot) []string {
	var ids []string
	for _, s := range g.GetSnapshots() {
		ids = append(ids, s.GetSnapshotId())
	}
	return ids
}

func TestGroupLife(t *testing.T) {
	t.Parallel()
	clock := &testClock{}
	opts := optionsIn(t.TempDir())
	opts.Clock = clock.now
	f := start(t, opts)
	f.script(t, "app/b", driver.Script{Script: backuptest.Script{ReadyAfter: time.Hour}})
	a, b, c := f.volume(t, "app/a"), f.volume(t, "app/b"), f.volume(t, "app/c")
	taken := must[*csi.VolumeGroupSnapshot](t)(f.takeGroup(t, "g", a, b))
	if taken.GetReadyToUse() || len(taken.GetSnapshots()) != 2 {
		t.Errorf("CreateVolumeGroupSnapshot() = %v, want two snapshots and not ready, as one of them is not", taken)
	}
	for _, s := range taken.GetSnapshots() {
		if s.GetGroupSnapshotId() != taken.GetGroupSnapshotId() || taken.GetCreationTime().AsTime().Before(s.GetCreationTime().AsTime()) {
			t.Errorf("snapshot %v of group %v: want its handle and a creation time no earlier", s, taken)
		}
	}
	clock.advance(time.Hour)
	again := must[*csi.VolumeGroupSnapshot](t)(f.takeGroup(t, "g", b, a))
	if !again.GetReadyToUse() || !slices.Equal(memberIDs(again), memberIDs(taken)) {
		t.Errorf("the same call an hour later = %v, want the same snapshots, ready", again)
	}
	_, err := f.takeGroup(t, "g", a, c)
	wantStatus(t, "a group of that name and other volumes", err, codes.AlreadyExists, "other source volumes")
	got := must[*csi.GetVolumeGroupSnapshotResponse](t)(f.group.GetVolumeGroupSnapshot(t.Context(), &csi.GetVolumeGroupSnapshotRequest{
		GroupSnapshotId: taken.GetGroupSnapshotId(), SnapshotIds: memberIDs(taken),
	}))
	if diff := cmp.Diff(again, got.GetGroupSnapshot(), protocmp.Transform()); diff != "" {
		t.Errorf("GetVolumeGroupSnapshot() (-create +get):\n%s", diff)
	}
	listed := must[*csi.ListSnapshotsResponse](t)(f.ListSnapshots(t.Context(), &csi.ListSnapshotsRequest{SourceVolumeId: a}))
	if len(listed.GetEntries()) != 1 || listed.GetEntries()[0].GetSnapshot().GetGroupSnapshotId() != taken.GetGroupSnapshotId() {
		t.Errorf("ListSnapshots(%s) = %v, want the one of the group", a, listed)
	}
	volumes := slices.Sorted(slices.Values([]string{a, b}))
	want := []driver.Group{{ID: taken.GetGroupSnapshotId(), Name: "g", Volumes: volumes, Members: memberIDs(taken)}}
	if diff := cmp.Diff(want, must[[]driver.Group](t)(f.Groups(t.Context()))); diff != "" {
		t.Errorf("Groups() (-want +got):\n%s", diff)
	}

	remove := func() error {
		_, err := f.group.DeleteVolumeGroupSnapshot(t.Context(), &csi.DeleteVolumeGroupSnapshotRequest{GroupSnapshotId: taken.GetGroupSnapshotId(), SnapshotIds: memberIDs(taken)})
		return err
	}
	f.script(t, "app/b", driver.Refuse("FailedPrecondition", "in use"))
	wantStatus(t, "DeleteVolumeGroupSnapshot that one member refuses", remove(), codes.FailedPrecondition, "in use")
	f.script(t, "app/b", driver.Script{})
	for range 2 {
		if err := remove(); err != nil {
			t.Errorf("DeleteVolumeGroupSnapshot() = %v, want nil", err)
		}
	}
	if got := must[[]driver.Snapshot](t)(f.Snapshots(t.Context())); len(got) != 0 {
		t.Errorf("Snapshots() after deletion = %v, want none", got)
	}
	for _, cut := range must[[]driver.Cut](t)(f.Cuts(t.Context(), "app/*")) {
		if cut.Held || cut.Deleted.IsZero() || cut.Answered.IsZero() {
			t.Errorf("cut = %+v, want one that was answered and is deleted", cut)
		}
	}
}

// When one member fails none stays, and the next call takes all anew.
func TestGroupIsAllOrNothing(t *testing.T) {
	t.Parallel()
	f := start(t, optionsIn(t.TempDir()))
	f.script(t, "app/b", errorScript(backuptest.DriverError{Code: "Unavailable", Text: "not now", Times: 2}))
	a, b := f.volume(t, "app/a"), f.volume(t, "app/b")
	for range 2 {
		_, err := f.takeGroup(t, "g", a, b)
		wantStatus(t, "a group with a member that fails", err, codes.Unavailable, "not now")
		if got := must[[]driver.Snapshot](t)(f.Snapshots(t.Context())); len(got) != 0 {
			t.Errorf("Snapshots() after a failed group = %v, want none", got)
		}
	}
	must[*csi.VolumeGroupSnapshot](t)(f.takeGroup(t, "g", a, b))
	if got := must[[]driver.Snapshot](t)(f.Snapshots(t.Context())); len(got) != 2 {
		t.Errorf("Snapshots() = %v, want two", got)
	}
}

func TestGroupUnderWay(t *testing.T) {
	t.Parallel()
	f := start(t, optionsIn(t.TempDir()))
	f.script(t, "app/a", driver.Script{HangCreate: true})
	a := f.volume(t, "app/a")
	done := make(chan error, 1)
	go func() {
		_, err := f.group.CreateVolumeGroupSnapshot(t.Context(), &csi.CreateVolumeGroupSnapshotRequest{Name: "g", SourceVolumeIds: []string{a}})
		done <- err
	}()
	first := driver.CallFilter{Method: "CreateVolumeGroupSnapshot", Name: "g"}
	must[[]driver.Call](t)(f.WaitCalls(t.Context(), first, 1))
	// The call is in the log before it holds the group: a second one may come first, and is then the one that hangs.
	for range 2 {
		go func() {
			_, err := f.group.CreateVolumeGroupSnapshot(t.Context(), &csi.CreateVolumeGroupSnapshotRequest{Name: "g", SourceVolumeIds: []string{a}})
			done <- err
		}()
	}
	for range 2 {
		wantStatus(t, "a group that a call works at", <-done, codes.Aborted, "under way")
	}
	if err := f.ClearScripts(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("the call that worked at it = %v, want nil", err)
	}
}
