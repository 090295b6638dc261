package driver_test

import (
	"context"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/test/e2e/driver"
	"google.golang.org/grpc/codes"
)

// errorScript answers CreateSnapshot with these errors.
func errorScript(errs ...backuptest.DriverError) driver.Script {
	return driver.Script{Script: backuptest.Script{Errors: errs}}
}

func TestScriptedErrors(t *testing.T) {
	t.Parallel()
	rules := []driver.Rule{
		{Pattern: "*/*", Script: errorScript(backuptest.DriverError{Code: "Unavailable", Text: "all"})},
		{Pattern: "app/*", Script: driver.Script{}},
		{Pattern: "app/bad-*", Script: errorScript(backuptest.DriverError{Code: "InvalidArgument", Text: "never"})},
		{Pattern: "app/twice", Script: errorScript(backuptest.DriverError{Code: "Aborted", Text: "busy", Times: 1}, backuptest.DriverError{Text: "broken", Times: 1})},
	}
	cases := map[string]struct {
		reason string
		claim  string
		want   []codes.Code // of calls with one name, one after the other
	}{
		"no error":           {"the script set later for the namespace goes before that for all", "app/data", []codes.Code{codes.OK, codes.OK}},
		"for ever":           {"an error without count has no end", "app/bad-1", []codes.Code{codes.InvalidArgument, codes.InvalidArgument, codes.InvalidArgument}},
		"counted":            {"each is given as often as it says, and without code it is Internal", "app/twice", []codes.Code{codes.Aborted, codes.Internal, codes.OK, codes.OK}},
		"another namespace":  {"only the first script is for it", "web/data", []codes.Code{codes.Unavailable}},
		"claim is not known": {"it is matched as /", "", []codes.Code{codes.Unavailable}},
	}
	f := start(t, optionsIn(t.TempDir()))
	for _, rule := range rules {
		f.script(t, rule.Pattern, rule.Script)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			volume := f.volume(t, tc.claim)
			var got []codes.Code
			for range tc.want {
				_, err := f.CreateSnapshot(t.Context(), snapshotRequest("of "+tc.claim, volume))
				got = append(got, codeOf(err))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("codes of %s (-want +got): %s\n%s", tc.claim, tc.reason, diff)
			}
		})
	}
	if diff := cmp.Diff(rules, must[[]driver.Rule](t)(f.Rules(t.Context()))); diff != "" {
		t.Errorf("Rules() (-want +got):\n%s", diff)
	}
}

// A script changes while the driver runs; one that is set again goes to the end.
func TestScriptsChange(t *testing.T) {
	t.Parallel()
	f := start(t, optionsIn(t.TempDir()))
	volume := f.volume(t, "app/data")
	take := func() error {
		_, err := f.CreateSnapshot(t.Context(), snapshotRequest("s", volume))
		return err
	}
	f.script(t, "app/data", errorScript(backuptest.DriverError{Code: "DataLoss", Text: "first text"}))
	wantStatus(t, "under the first script", take(), codes.DataLoss, "first text")
	f.script(t, "app/*", errorScript(backuptest.DriverError{Code: "Internal", Text: "second text"}))
	wantStatus(t, "under a script set later", take(), codes.Internal, "second text")
	f.script(t, "app/data", errorScript(backuptest.DriverError{Code: "Unknown", Text: "third text"}))
	wantStatus(t, "under the first pattern again", take(), codes.Unknown, "third text")
	if err := f.ClearScripts(t.Context(), "app/data"); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, "after one script was cleared", take(), codes.Internal, "second text")
	if err := f.ClearScripts(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := take(); err != nil {
		t.Errorf("without scripts: %v", err)
	}
	want := map[string]map[string]int{"s": {"DataLoss": 1, "Internal": 2, "Unknown": 1, "OK": 1}}
	if diff := cmp.Diff(want, must[driver.Counts](t)(f.Counts(t.Context())).Snapshots); diff != "" {
		t.Errorf("Counts().Snapshots (-want +got):\n%s", diff)
	}
}

func TestRefusedDeletion(t *testing.T) {
	t.Parallel()
	f := start(t, optionsIn(t.TempDir()))
	id := f.snapshot(t, "s", f.volume(t, "app/data")).GetSnapshotId()
	remove := func() error {
		_, err := f.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: id})
		return err
	}
	f.script(t, "app/data", driver.Refuse("FailedPrecondition", "in use"))
	for range 3 {
		wantStatus(t, "DeleteSnapshot that is refused", remove(), codes.FailedPrecondition, "in use")
	}
	cuts := must[[]driver.Cut](t)(f.Cuts(t.Context(), ""))
	if len(cuts) != 1 || !cuts[0].Held || !cuts[0].Deleted.IsZero() {
		t.Errorf("Cuts() = %+v, want one that is held and not deleted", cuts)
	}
	f.script(t, "app/data", driver.Script{})
	if err := remove(); err != nil {
		t.Error(err)
	}
}

// A call that hangs ends with its context, and goes on when the script is taken away.
func TestHang(t *testing.T) {
	t.Parallel()
	f := start(t, optionsIn(t.TempDir()))
	volume := f.volume(t, "app/data")
	id := f.snapshot(t, "old", volume).GetSnapshotId()
	f.script(t, "app/data", driver.Script{HangCreate: true, HangDelete: true})
	calls := map[string]func(context.Context) error{
		"CreateSnapshot": func(ctx context.Context) error {
			_, err := f.CreateSnapshot(ctx, snapshotRequest("s", volume))
			return err
		},
		"DeleteSnapshot": func(ctx context.Context) error {
			_, err := f.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: id})
			return err
		},
	}
	results := map[string]chan error{}
	for method, call := range calls {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		wantStatus(t, method+" that hangs", call(ctx), codes.DeadlineExceeded, "")
		cancel()
		before := len(must[[]driver.Call](t)(f.Calls(t.Context(), driver.CallFilter{Method: method})))
		result := make(chan error, 1)
		results[method] = result
		go func() { result <- call(t.Context()) }()
		must[[]driver.Call](t)(f.WaitCalls(t.Context(), driver.CallFilter{Method: method}, before+1))
	}
	f.script(t, "app/data", driver.Script{HangDelete: true})
	if err := <-results["CreateSnapshot"]; err != nil {
		t.Errorf("CreateSnapshot that hangs no longer = %v, want nil", err)
	}
	if got := must[[]driver.Snapshot](t)(f.Snapshots(t.Context())); len(got) != 2 {
		t.Errorf("Snapshots() = %v, want the old one, whose deletion hangs, and the new one", got)
	}
	if err := f.ClearScripts(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-results["DeleteSnapshot"]; err != nil {
		t.Errorf("DeleteSnapshot that hangs no longer = %v, want nil", err)
	}
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	clock := newFrozenClock()
	opts := optionsIn(t.TempDir())
	opts.Clock = clock.now
	f := start(t, opts)
	volume := f.volume(t, "app/data")
	limit := driver.Limit{PerSecond: 1.5}
	if err := f.SetLimit(t.Context(), "CreateSnapshot", limit); err != nil {
		t.Fatal(err)
	}
	take := func() codes.Code {
		_, err := f.CreateSnapshot(t.Context(), snapshotRequest("s", volume))
		return codeOf(err)
	}
	var got []codes.Code
	for _, pause := range []time.Duration{0, 0, 0, time.Second, 0, time.Minute, 0, 0} {
		clock.advance(pause)
		got = append(got, take())
	}
	const ok, over = codes.OK, codes.ResourceExhausted
	if diff := cmp.Diff([]codes.Code{ok, ok, over, ok, over, ok, ok, over}, got); diff != "" {
		t.Errorf("at 1.5 calls a second (-want +got):\n%s", diff)
	}
	if got := must[[]driver.Volume](t)(f.Volumes(t.Context())); len(got) != 1 {
		t.Errorf("Volumes() = %v, want another method to have no limit", got)
	}
	if diff := cmp.Diff(map[string]driver.Limit{"CreateSnapshot": limit}, must[map[string]driver.Limit](t)(f.Limits(t.Context()))); diff != "" {
		t.Errorf("Limits() (-want +got):\n%s", diff)
	}
	if err := f.ClearLimit(t.Context(), "CreateSnapshot"); err != nil {
		t.Fatal(err)
	}
	if got := take(); got != codes.OK {
		t.Errorf("without limit = %v, want OK", got)
	}
	want := map[string]int{"OK": 6, "ResourceExhausted": 3}
	if diff := cmp.Diff(want, must[driver.Counts](t)(f.Counts(t.Context())).Methods["CreateSnapshot"]); diff != "" {
		t.Errorf("Counts() (-want +got):\n%s", diff)
	}
}
