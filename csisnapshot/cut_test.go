package csisnapshot_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/internal/race"
)

// S5: pre hooks, creates, all cuts, post hooks; the freeze is measured from the return of the pre hook to the start of the
// post hook, and is the slowest cut, not the sum (S4, snap-29, snap-30).
func TestCutMeasuresTheFreeze(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		scripts := map[string]backuptest.Script{"a": {CutAfter: 2 * time.Second}, "b": {CutAfter: 3 * time.Second}}
		l := newCutLab(t, backuptest.ControllerOptions{Scripts: scripts},
			append(claims("a", "b", "c"), hookedPod("db", "a", "b"), plainPod("web", "c"))...)
		report := l.mustCut(csisnapshot.Options{})
		checkWhole(t, report)
		if got, want := l.quiescer.order(), "db/pre db/post"; got != want {
			t.Errorf("hooks ran %q, want %q", got, want)
		}
		pod := podOf(t, report, "db")
		pre, post := l.quiescer.find(t, "db", "pre", 0), l.quiescer.find(t, "db", "post", 0)
		if want := post.at - pre.end; pod.Frozen != want {
			t.Errorf("Frozen = %v, want %v as the hooks saw it", pod.Frozen, want)
		}
		if pod.Frozen < 3*time.Second || pod.Frozen > 4*time.Second {
			t.Errorf("Frozen = %v, want that of the slowest cut, 3s, and at most a second more", pod.Frozen)
		}
		if want := post.end - pre.at; pod.Total != want || !pod.Hooked {
			t.Errorf("Total = %v (hooked %v), want %v", pod.Total, pod.Hooked, want)
		}
		if diff := cmp.Diff([]string{"a", "b", "c"}, l.stored()); diff != "" {
			t.Errorf("snapshots in the storage (-want +got):\n%s", diff)
		}
		v := volumeOf(t, report, "a")
		if v.Snapshot == "" || v.SnapshotUID == "" || v.Content != csisnapshot.ContentName(v.SnapshotUID) || v.CreationTime == nil {
			t.Errorf("volume report lacks what was seen: %+v", v)
		}
		if ref, err := csisnapshot.ParseOperationID(v.OperationID); err != nil || ref.Name != v.Snapshot {
			t.Errorf("ParseOperationID(%q) = %v, %v", v.OperationID, ref, err)
		}
	})
}

// S4: hooked batches come first, one pod is frozen at a time, and nothing unhooked is created meanwhile.
func TestCutProtectsTheFreeze(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newCutLab(t, backuptest.ControllerOptions{Rate: backuptest.RealRate},
			append(claims("a1", "a2", "b1", "w1", "w2", "w3", "orphan"),
				hookedPod("pa", "a1", "a2"), hookedPod("pb", "b1"), plainPod("web", "w1", "w2", "w3"))...)
		created := map[string]time.Duration{}
		start := time.Now()
		report := l.mustCut(csisnapshot.Options{Observer: csisnapshot.Observer{
			Created: func(e csisnapshot.VolumeEvent) { created[e.Claim] = time.Since(start) },
		}})
		checkWhole(t, report)
		if got, want := l.quiescer.order(), "pa/pre pa/post pb/pre pb/post"; got != want {
			t.Fatalf("hooks ran %q, want %q", got, want)
		}
		last := l.quiescer.find(t, "pb", "post", 0).end
		for _, c := range []string{"w1", "w2", "w3", "orphan"} {
			if created[c] < last {
				t.Errorf("unhooked %s was created at %v, while a pod was frozen until %v", c, created[c], last)
			}
		}
		// One snapshot costs the controller nine requests: two of them are cut in seconds when nothing else queues.
		if pod := podOf(t, report, "pa"); pod.Frozen > 6*time.Second {
			t.Errorf("pa was frozen for %v", pod.Frozen)
		}
	})
}

// S4: pods of one controller are never frozen together however many pods may be; pods that share a volume are.
func TestCutKeepsControllersApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		owner := backuptest.ControllerOf("apps/v1", "StatefulSet", "app", "set")
		s0, s1, s2 := hookedPod("s0", "a"), hookedPod("s1", "b"), hookedPod("s2", "shared")
		s3 := hookedPod("s3", "shared")
		for _, p := range []*backuptest.Pod{&s0, &s1, &s2, &s3} {
			p.Owner = owner
		}
		scripts := map[string]backuptest.Script{}
		for _, c := range []string{"a", "b", "c", "shared"} {
			scripts[c] = backuptest.Script{CutAfter: 2 * time.Second}
		}
		l := newCutLab(t, backuptest.ControllerOptions{Scripts: scripts},
			append(claims("a", "b", "c", "shared"), s0, s1, s2, s3, hookedPod("free", "c"))...)
		report := l.mustCut(csisnapshot.Options{MaxFrozenPods: 10})
		checkWhole(t, report)
		span := func(pod string) (from, to time.Duration) {
			return l.quiescer.find(t, pod, "pre", 0).at, l.quiescer.find(t, pod, "post", 0).end
		}
		overlap := func(a, b string) bool {
			a0, a1 := span(a)
			b0, b1 := span(b)
			return a0 < b1 && b0 < a1
		}
		for _, pair := range [][2]string{{"s0", "s1"}, {"s0", "s2"}, {"s0", "s3"}, {"s1", "s2"}, {"s1", "s3"}} {
			if overlap(pair[0], pair[1]) {
				t.Errorf("%s and %s of one controller were frozen together", pair[0], pair[1])
			}
		}
		if !overlap("s2", "s3") {
			t.Error("s2 and s3 share a volume and were not frozen together")
		}
		if !overlap("free", "s0") {
			t.Error("a pod of no controller had to wait although 10 may be frozen")
		}
	})
}

// S4: a freeze starts only when the snapshots sent before are picked up, but waits no longer than MaxPickup for that.
func TestCutWaitsForPickup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newCutLab(t, backuptest.ControllerOptions{}, append(claims("a", "b"), hookedPod("pa", "a"), hookedPod("pb", "b"))...)
		l.stop() // nothing is picked up any more
		l.all.Wait()
		report, err := l.cut(t.Context(), csisnapshot.Options{
			MaxFreeze: 10 * time.Second, MaxPickup: 30 * time.Second,
			Wait: csisnapshot.WaitOptions{Timeout: 2 * time.Minute},
		})
		if err != nil {
			t.Fatal(err)
		}
		thawed, frozen := l.quiescer.find(t, "pa", "post", 0).end, l.quiescer.find(t, "pb", "pre", 0).at
		if frozen-thawed != 30*time.Second {
			t.Errorf("pb was frozen %v after pa was thawed, want MaxPickup of 30s", frozen-thawed)
		}
		for _, v := range report.Volumes {
			if v.Err == nil {
				t.Errorf("claim %s: no error without a controller", v.Claim)
			}
		}
		if report.Duration > 4*time.Minute {
			t.Errorf("Cut took %v", report.Duration)
		}
	})
}

// S4: at most Concurrency snapshots are sent and not cut (snap-2).
func TestCutLimitsSnapshotsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		names := numbered("c", 10)
		scripts := map[string]backuptest.Script{}
		for _, n := range names {
			scripts[n] = backuptest.Script{CutAfter: 4 * time.Second}
		}
		l := newCutLab(t, backuptest.ControllerOptions{Scripts: scripts}, claims(names...)...)
		inFlight, most := 0, 0
		report := l.mustCut(csisnapshot.Options{Concurrency: 3, Observer: csisnapshot.Observer{
			Created: func(csisnapshot.VolumeEvent) { inFlight++; most = max(most, inFlight) },
			Cut:     func(csisnapshot.VolumeEvent) { inFlight-- },
		}})
		checkWhole(t, report)
		if most != 3 {
			t.Errorf("%d snapshots in flight at most, want 3", most)
		}
		if report.Duration < 16*time.Second || report.Duration > 18*time.Second {
			t.Errorf("Cut took %v, want about ceil(10/3) times 4s", report.Duration)
		}
	})
}

// S7: N never-ready volumes cost one Timeout at any cap (snap-1).
func TestCutNeverReadyCostsOneTimeout(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, 10} {
		synctest.Test(t, func(t *testing.T) {
			names := numbered("c", race.Scaled(30, 15))
			scripts := map[string]backuptest.Script{}
			for _, n := range names {
				scripts[n] = backuptest.Script{Silent: true}
			}
			l := newCutLab(t, backuptest.ControllerOptions{Scripts: scripts}, claims(names...)...)
			report := l.mustCut(csisnapshot.Options{Concurrency: limit})
			if report.Failed() != len(names) {
				t.Errorf("%d volumes failed, want all %d", report.Failed(), len(names))
			}
			if report.Duration > 11*time.Minute {
				t.Errorf("limit %d: Cut took %v, want about one Timeout of 10m", limit, report.Duration)
			}
		})
	}
}

// S3: for 300 volumes there are 300 creates, and few other requests.
func TestCutHundredsOfVolumes(t *testing.T) {
	t.Parallel()
	n := race.Scaled(300, 100)
	synctest.Test(t, func(t *testing.T) {
		l := newCutLab(t, backuptest.ControllerOptions{}, claims(numbered("c", n)...)...)
		l.stop()
		l.all.Wait()
		l.cluster.ResetRequests()
		report, err := l.cut(t.Context(), csisnapshot.Options{Wait: csisnapshot.WaitOptions{Timeout: 30 * time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Volumes) != n || report.Failed() != n {
			t.Errorf("%d volumes, %d failed, want %d without a controller", len(report.Volumes), report.Failed(), n)
		}
		requests := l.cluster.Requests()
		creates := requests["create volumesnapshots"]
		others := 0
		for what, n := range requests {
			if what != "create volumesnapshots" {
				others += n
			}
		}
		if creates != n || others > 25 {
			t.Errorf("%d creates and %d other requests, want %d and at most 25: %v", creates, others, n, requests)
		}
	})
}

// S6: one volume's failure hides no other's result, and its operation has failed with the error.
func TestCutReportsEachVolume(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		scripts := map[string]backuptest.Script{
			"bad": {Errors: []backuptest.DriverError{{Code: "InvalidArgument", Text: "no such volume"}}},
		}
		nfs := claim("nfs")
		nfs.NFS = true
		strange := claim("strange")
		strange.Driver = "other.example.dev"
		l := newCutLab(t, backuptest.ControllerOptions{Scripts: scripts}, append(claims("bad", "good"), nfs, strange, hookedPod("db", "bad", "good"))...)
		report := l.mustCut(csisnapshot.Options{Wait: csisnapshot.WaitOptions{Classifier: csisnapshot.FinalCodes("InvalidArgument")}})
		if v := volumeOf(t, report, "good"); !v.IsCut() {
			t.Errorf("good: %+v", v)
		}
		if v := volumeOf(t, report, "bad"); v.Err == nil || v.IsCut() || v.Snapshot == "" {
			t.Errorf("bad: %+v", v)
		}
		if v := volumeOf(t, report, "nfs"); v.Skipped != "not CSI (nfs)" || v.Err != nil || v.OperationID != "" {
			t.Errorf("nfs: %+v", v)
		}
		if v := volumeOf(t, report, "strange"); v.Err == nil {
			t.Errorf("strange: %+v", v)
		}
		var phases []string
		for _, op := range report.Operations() {
			if op.Action != csisnapshot.ActionName {
				t.Errorf("action %q", op.Action)
			}
			if (op.Status.Error != "") != (op.Status.Phase == "Failed") {
				t.Errorf("operation %s: phase %s, error %q", op.ID, op.Status.Phase, op.Status.Error)
			}
			phases = append(phases, string(op.Status.Phase))
		}
		if want := []string{"Failed", "InProgress", "Failed"}; !slices.Equal(phases, want) {
			t.Errorf("operations are %v, want %v", phases, want)
		}
		if frozen := l.quiescer.frozen(); frozen != nil {
			t.Errorf("frozen after Cut: %v", frozen)
		}
	})
}

// X2, S9: every volume's error names its claim once, and what was never created says so in its operation ID, which is the same
// when a repeated Cut fails again.
func TestCutNamesWhatFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		scripts := map[string]backuptest.Script{
			"bad": {Errors: []backuptest.DriverError{{Code: "InvalidArgument", Text: "no such volume"}}}, "slow": {CutAfter: time.Hour},
		}
		strange := claim("strange")
		strange.Driver = "other.example.dev"
		l := newCutLab(t, backuptest.ControllerOptions{Scripts: scripts},
			append(claims("bad", "slow", "hooked", "refused", "waits"), strange, hookedPod("pa", "hooked"))...)
		l.quiescer.exec = func(context.Context, string, string) error { return errors.New("no") }
		name := func(claim string) string { return csisnapshot.Names{}.Snapshot(cutOwner.UID, claimRef(claim).UID) }
		l.cluster.Fault(backuptest.Fault{Verb: "create", Resource: "volumesnapshots", Name: name("refused"), Code: 422})
		created := map[string]bool{"bad": true, "slow": true}
		ids := map[string]string{}
		for round := range 2 {
			s := l.snapshotter(csisnapshot.Options{
				Concurrency: 1, Wait: csisnapshot.WaitOptions{Timeout: 2 * time.Minute, Classifier: csisnapshot.FinalCodes("InvalidArgument")},
			})
			plan, err := s.Plan(t.Context(), "app")
			if err != nil {
				t.Fatal(err)
			}
			plan.Batches = append(plan.Batches, csisnapshot.Batch{Volumes: []csisnapshot.Volume{
				{Namespace: "app", Claim: "absent", ClaimUID: "u", Class: "csi-snapclass", Driver: backuptest.DefaultDriver},
			}})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // before slow is cut, and with it the place of waits
			report, err := s.Cut(ctx, cutOwner, plan)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) || report.Failed() != 7-round { // the second round adopts slow, and cuts waits
				t.Fatalf("Cut = %v, failed: %v, want all but %d of 7", err, report.Err(), round)
			}
			for _, v := range report.Volumes {
				if v.Err == nil {
					continue
				}
				if text, where := v.Err.Error(), "claim app/"+v.Claim; !strings.HasPrefix(text, where+": ") || strings.Count(text, where) != 1 {
					t.Errorf("error of %s: %s", v.Claim, text)
				}
				if _, err := csisnapshot.ParseOperationID(v.OperationID); err != nil || strings.HasSuffix(v.OperationID, "/not-created") == created[v.Claim] {
					t.Errorf("operation of %s: %q, %v", v.Claim, v.OperationID, err)
				}
				if before := ids[v.Claim]; before != "" && before != v.OperationID {
					t.Errorf("operation of %s: %q became %q", v.Claim, before, v.OperationID)
				}
				ids[v.Claim] = v.OperationID
			}
		}
	})
}
