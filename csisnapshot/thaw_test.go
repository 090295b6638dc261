package csisnapshot_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// leaveFrozen is a lab in which a process was killed that had frozen pods pa and pb, which share a volume.
func leaveFrozen(t *testing.T) *cutLab {
	t.Helper()
	l := newCutLab(t, backuptest.ControllerOptions{}, append(claims("a", "b", "shared"), hookedPod("pa", "a", "shared"), hookedPod("pb", "b", "shared"))...)
	first := &process{lab: l, limit: 4} // two intents and two pre hooks
	if _, err := first.live(t, cutOwner); err == nil || !slices.Equal(l.quiescer.frozen(), []string{"pa", "pb"}) {
		t.Fatalf("Cut = %v after %v, frozen %v", err, first.effects, l.quiescer.frozen())
	}
	time.Sleep(time.Minute)
	return l
}

// outcomes are the reports as "pod: outcome", sorted by pod.
func outcomes(reports []csisnapshot.ThawReport) []string {
	var all []string
	for _, r := range reports {
		all = append(all, r.Pod.Name+": "+string(r.Outcome))
	}
	slices.Sort(all)
	return all
}

// S5: a workflow that will not cut again thaws every pod that an earlier process left frozen once, whoever the owner was, and
// takes no snapshot; a second Thaw, and a Cut, find nothing to thaw.
func TestThaw(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := leaveFrozen(t)
		frozen := l.quiescer.runs()
		var told []string
		s := l.snapshotter(csisnapshot.Options{Observer: csisnapshot.Observer{Thawed: func(e csisnapshot.PodEvent) {
			if e.Leftover {
				told = append(told, e.Pod.Name)
			}
		}}})
		reports, err := s.Thaw(t.Context(), csisnapshot.Owner{UID: "another", Namespace: "backups", Name: "weekly"})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := outcomes(reports), []string{"pa: thawed", "pb: thawed"}; !slices.Equal(got, want) {
			t.Errorf("Thaw = %v, want %v", got, want)
		}
		for _, r := range reports {
			at := r.FrozenAt.Sub(l.quiescer.start)
			if r.Owner != cutOwner || r.Err != nil || at < 0 || at > l.quiescer.find(t, r.Pod.Name, "pre", 0).at || r.Pod.UID == "" {
				t.Errorf("report %+v, want one of %v, frozen at the start", r, cutOwner)
			}
		}
		if slices.Sort(told); !slices.Equal(told, []string{"pa", "pb"}) {
			t.Errorf("the observer was told of %v", told)
		}
		runs := l.quiescer.runs()[len(frozen):]
		if len(runs) != 2 || runs[0].stage != "post" || runs[1].stage != "post" || l.quiescer.frozen() != nil {
			t.Errorf("hooks ran %v, want one post hook in each pod", runs)
		}
		saves := l.intents.count()
		if reports, err = l.snapshotter(csisnapshot.Options{}).Thaw(t.Context(), cutOwner); err != nil || len(reports) > 0 {
			t.Errorf("second Thaw = %v, %v, want nothing", reports, err)
		}
		if len(l.quiescer.runs()) != len(frozen)+2 || l.intents.count() != saves || l.stored() != nil {
			t.Errorf("the second Thaw ran %q, saved %d times, stored %v", l.quiescer.order(), l.intents.count()-saves, l.stored())
		}
		report := l.mustCut(csisnapshot.Options{})
		checkWhole(t, report)
		if len(report.Leftovers) > 0 {
			t.Errorf("a Cut after Thaw has leftovers: %+v", report.Leftovers)
		}
	})
}

// S5: Thaw reports a pod that is another now or gone and runs nothing in it; one whose post hook fails stays for the next.
func TestThawReportsWhatItCannotThaw(t *testing.T) {
	t.Parallel()
	errDown := errors.New("database is down")
	cases := map[string]struct {
		before      func(t *testing.T, l *cutLab)
		first, next []string // outcomes of two Thaws
		posts       int      // hooks that the first ran
	}{
		"recreated": {
			before: func(t *testing.T, l *cutLab) {
				t.Helper()
				l.deletePod("pb")
				pod := hookedPod("pb", "b", "shared")
				pod.UID = "another"
				if err := l.cluster.Add(pod.Objects()...); err != nil {
					t.Fatal(err)
				}
			},
			first: []string{"pa: thawed", "pb: pod recreated"}, posts: 1,
		},
		"gone": {
			before: func(_ *testing.T, l *cutLab) { l.deletePod("pb") },
			first:  []string{"pa: thawed", "pb: pod gone"}, posts: 1,
		},
		"post hook fails": {
			before: func(_ *testing.T, l *cutLab) {
				l.quiescer.exec = func(_ context.Context, pod, _ string) error {
					if pod == "pb" {
						return errDown
					}
					return nil
				}
			},
			first: []string{"pa: thawed", "pb: failed"}, posts: 2, next: []string{"pb: thawed"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := leaveFrozen(t)
				tc.before(t, l)
				before := len(l.quiescer.runs())
				reports, err := l.snapshotter(csisnapshot.Options{}).Thaw(t.Context(), cutOwner)
				if err != nil || !slices.Equal(outcomes(reports), tc.first) || len(l.quiescer.runs()) != before+tc.posts {
					t.Errorf("Thaw = %v, %v after %d hooks, want %v after %d", outcomes(reports), err, len(l.quiescer.runs())-before, tc.first, tc.posts)
				}
				for _, r := range reports {
					if failed := r.Outcome == csisnapshot.ThawFailed; failed != errors.Is(r.Err, errDown) {
						t.Errorf("%s: %v", r.Pod.Name, r.Err)
					}
				}
				l.quiescer.exec = nil
				reports, err = l.snapshotter(csisnapshot.Options{}).Thaw(t.Context(), cutOwner)
				if err != nil || !slices.Equal(outcomes(reports), tc.next) {
					t.Errorf("next Thaw = %v, %v, want %v", outcomes(reports), err, tc.next)
				}
			})
		})
	}
}

// S5: what keeps Thaw from its work as a whole is its error, nothing is recorded as thawed, and the next Thaw does it.
func TestThawErrors(t *testing.T) {
	t.Parallel()
	errStore := errors.New("store is read-only")
	cases := map[string]struct {
		owner  csisnapshot.Owner
		bare   bool // no quiescer
		before func(l *cutLab, cancel context.CancelFunc)
		is     error
		text   string
		again  int // post hooks of the next Thaw
	}{
		"no owner":    {text: "UID is empty", again: 2},
		"ctx ended":   {owner: cutOwner, before: func(_ *cutLab, cancel context.CancelFunc) { cancel() }, is: context.Canceled, text: "thaw for backups/nightly", again: 2},
		"no quiescer": {owner: cutOwner, bare: true, is: csisnapshot.ErrIntents, text: "was left frozen and there is no Quiescer", again: 2},
		"no record": { // the hooks run, and run again: over a failure they run at least once
			owner: cutOwner, before: func(l *cutLab, _ context.CancelFunc) {
				l.intents.fail = func(context.Context, int) error { return errStore }
			}, is: errStore, text: "record that pod app/p", again: 2,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := leaveFrozen(t)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.before != nil {
					tc.before(l, cancel)
				}
				s := l.snapshotter(csisnapshot.Options{})
				if tc.bare {
					s = l.bareSnapshotter(csisnapshot.Options{Intents: l.intents})
				}
				_, err := s.Thaw(ctx, tc.owner)
				if err == nil || tc.is != nil && !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.text) {
					t.Errorf("Thaw = %v, want %v with %q", err, tc.is, tc.text)
				}
				l.intents.fail = nil
				before := len(l.quiescer.runs())
				if _, err := l.snapshotter(csisnapshot.Options{}).Thaw(t.Context(), cutOwner); err != nil || len(l.quiescer.runs())-before != tc.again {
					t.Errorf("next Thaw = %v after %d hooks, want %d", err, len(l.quiescer.runs())-before, tc.again)
				}
			})
		})
	}
}

// Without a document of intents there is nothing to thaw.
func TestThawWithoutIntents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newCutLab(t, backuptest.ControllerOptions{})
		if reports, err := l.bareSnapshotter(csisnapshot.Options{}).Thaw(t.Context(), cutOwner); err != nil || reports != nil {
			t.Errorf("Thaw = %v, %v, want nothing", reports, err)
		}
	})
}
