package driver_test

import (
	"context"
	"fmt"
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

func TestSnapshotLife(t *testing.T) {
	t.Parallel()
	clock := newFrozenClock()
	opts := optionsIn(t.TempDir())
	opts.Clock = clock.now
	f := start(t, opts)
	volume, other := f.volume(t, "app/data"), f.volume(t, "app/other")
	taken := f.snapshot(t, "s", volume)
	if taken.GetSourceVolumeId() != volume || taken.GetSizeBytes() != 3<<20 || !taken.GetReadyToUse() || !taken.GetCreationTime().AsTime().Equal(clock.now()) {
		t.Errorf("CreateSnapshot() = %v, want one of volume %s, 3 MiB, ready, cut now", taken, volume)
	}
	_, err := f.CreateSnapshot(t.Context(), snapshotRequest("s", other))
	wantStatus(t, "CreateSnapshot of another source", err, codes.AlreadyExists, "another source volume")
	want := []driver.Snapshot{{
		ID: taken.GetSnapshotId(), Name: "s", Claim: "app/data", Volume: volume, VolumeSnapshot: "app/vs-s", Content: "snapcontent-s",
		Bytes: 3 << 20, CutAt: clock.now(), Ready: true,
	}}
	if diff := cmp.Diff(want, must[[]driver.Snapshot](t)(f.Snapshots(t.Context()))); diff != "" {
		t.Errorf("Snapshots() (-want +got):\n%s", diff)
	}
	must[*csi.DeleteVolumeResponse](t)(f.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: volume}))
	clock.advance(time.Minute)
	if diff := cmp.Diff(taken, f.snapshot(t, "s", volume), protocmp.Transform()); diff != "" {
		t.Errorf("the same CreateSnapshot when the volume is gone (-first +second):\n%s", diff)
	}
	for range 2 {
		must[*csi.DeleteSnapshotResponse](t)(f.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: taken.GetSnapshotId()}))
	}
	if got := must[[]driver.Snapshot](t)(f.Snapshots(t.Context())); len(got) != 0 {
		t.Errorf("Snapshots() after deletion = %v, want none", got)
	}
	wantCuts := []driver.Cut{{
		ID: taken.GetSnapshotId(), Name: "s", Claim: "app/data", Volume: volume,
		CutAt: taken.GetCreationTime().AsTime(), Answered: taken.GetCreationTime().AsTime(), Deleted: clock.now(),
	}}
	if diff := cmp.Diff(wantCuts, must[[]driver.Cut](t)(f.Cuts(t.Context(), "app/data"))); diff != "" {
		t.Errorf("Cuts() (-want +got):\n%s", diff)
	}
}

// A cut goes on when its caller has gone, and readiness counts from the cut.
func TestSlowStorage(t *testing.T) {
	t.Parallel()
	clock := &testClock{}
	opts := optionsIn(t.TempDir())
	opts.Clock = clock.now
	f := start(t, opts)
	f.script(t, "app/data", driver.Script{Script: backuptest.Script{CutAfter: time.Hour, ReadyAfter: time.Hour}})
	volume := f.volume(t, "app/data")

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := f.CreateSnapshot(ctx, snapshotRequest("s", volume))
		done <- err
	}()
	must[[]driver.Call](t)(f.WaitCalls(t.Context(), driver.CallFilter{Method: "CreateSnapshot"}, 1))
	cancel()
	wantStatus(t, "CreateSnapshot whose caller goes away", <-done, codes.Canceled, "")
	// The caller's own end may come before the driver's: wait for what the driver says.
	ended := must[[]driver.Call](t)(f.WaitCalls(t.Context(), driver.CallFilter{Method: "CreateSnapshot", Answered: true}, 1))
	if ended[0].Code != codes.Canceled.String() || ended[0].Claim != "app/data" || ended[0].Name != "s" {
		t.Errorf("the call = %+v, want Canceled for snapshot s of app/data", ended[0])
	}
	if got := must[[]driver.Snapshot](t)(f.Snapshots(t.Context())); len(got) != 0 {
		t.Errorf("Snapshots() before the cut = %v, want none", got)
	}
	clock.advance(time.Hour)
	cut := f.snapshot(t, "s", volume)
	if cut.GetReadyToUse() {
		t.Error("ready at the cut, want an hour later")
	}
	clock.advance(time.Hour)
	ready := f.snapshot(t, "s", volume)
	if !ready.GetReadyToUse() || !ready.GetCreationTime().AsTime().Equal(cut.GetCreationTime().AsTime()) {
		t.Errorf("an hour after the cut = %v, want ready with the same creation time as %v", ready, cut)
	}
}

// The answer goes out no earlier than the cut, and the log says when.
func TestAnswerComesAfterTheCut(t *testing.T) {
	t.Parallel()
	const cutAfter = 20 * time.Millisecond
	f := start(t, optionsIn(t.TempDir()))
	f.script(t, "app/*", driver.Script{Script: backuptest.Script{CutAfter: cutAfter}})
	f.snapshot(t, "s", f.volume(t, "app/data"))
	call := must[[]driver.Call](t)(f.Calls(t.Context(), driver.CallFilter{Method: "CreateSnapshot"}))[0]
	cut := must[[]driver.Cut](t)(f.Cuts(t.Context(), "app/data"))[0]
	if call.Answered.Sub(call.Begun) < cutAfter {
		t.Errorf("begun %v, answered %v: less than %v", call.Begun, call.Answered, cutAfter)
	}
	if !cut.Answered.Equal(call.Answered) || cut.CutAt.After(cut.Answered) || !cut.Held {
		t.Errorf("cut = %+v, want one that is held and was answered at %v", cut, call.Answered)
	}
}

func TestListSnapshots(t *testing.T) {
	t.Parallel()
	f := start(t, optionsIn(t.TempDir()))
	volumes := []string{f.volume(t, "app/a"), f.volume(t, "app/b")}
	ids := map[string]string{}
	var names []string
	for i := range 7 {
		name := fmt.Sprintf("s%d", i)
		names = append(names, name)
		ids[f.snapshot(t, name, volumes[i%2]).GetSnapshotId()] = name
	}
	list := func(req *csi.ListSnapshotsRequest) (page []string, next string) {
		t.Helper()
		resp := must[*csi.ListSnapshotsResponse](t)(f.ListSnapshots(t.Context(), req))
		for _, e := range resp.GetEntries() {
			page = append(page, ids[e.GetSnapshot().GetSnapshotId()])
		}
		return page, resp.GetNextToken()
	}
	idOf := func(name string) string {
		for id, n := range ids {
			if n == name {
				return id
			}
		}
		t.Fatalf("no snapshot %s", name)
		return ""
	}
	cases := map[string]struct {
		reason string
		req    *csi.ListSnapshotsRequest
		want   []string
	}{
		"all":                {"there is no limit", &csi.ListSnapshotsRequest{}, names},
		"by source":          {"those of the other volume are left out", &csi.ListSnapshotsRequest{SourceVolumeId: volumes[1]}, []string{"s1", "s3", "s5"}},
		"by handle":          {"a handle is one snapshot", &csi.ListSnapshotsRequest{SnapshotId: idOf("s4")}, []string{"s4"}},
		"by wrong handle":    {"an unknown one is no error", &csi.ListSnapshotsRequest{SnapshotId: "snap-none"}, nil},
		"by handle + source": {"both must fit", &csi.ListSnapshotsRequest{SnapshotId: idOf("s4"), SourceVolumeId: volumes[1]}, nil},
		"a page of all":      {"what fits has no next token", &csi.ListSnapshotsRequest{MaxEntries: 7}, names},
	}
	for name, tc := range cases {
		got, next := list(tc.req)
		if !slices.Equal(got, tc.want) || next != "" {
			t.Errorf("%s: ListSnapshots(%v) = %v, token %q, want %v and no token: %s", name, tc.req, got, next, tc.want, tc.reason)
		}
	}

	var paged []string
	token := ""
	for {
		page, next := list(&csi.ListSnapshotsRequest{MaxEntries: 2, StartingToken: token})
		paged = append(paged, page...)
		if len(paged) == 4 { // the last one that was listed goes between two pages
			must[*csi.DeleteSnapshotResponse](t)(f.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: idOf("s3")}))
		}
		if token = next; token == "" {
			break
		}
	}
	if !slices.Equal(paged, names) {
		t.Errorf("pages of two = %v, want %v", paged, names)
	}
}
