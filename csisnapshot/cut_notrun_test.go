package csisnapshot_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// S5, S8: a post hook whose command nobody has got is tried again for as long as the Cut may go on without progress, so that an
// API that is away for longer than a hook's time leaves no pod frozen. It still runs once, and what may have run is not repeated.
func TestCutTriesAPostHookUntilItIsRun(t *testing.T) {
	t.Parallel()
	notRun := fmt.Errorf("connection refused: %w", csisnapshot.ErrNotRun)
	cases := map[string]struct {
		reason       string
		away         time.Duration
		err          error
		cancel       time.Duration
		ran          bool
		least, bound time.Duration // of the whole
	}{
		"away for five minutes": {reason: "the hook's own time is 30 s", away: 5 * time.Minute, err: notRun, ran: true, least: 5 * time.Minute, bound: 6 * time.Minute},
		"away for good":         {reason: "the Timeout bounds it", away: 24 * time.Hour, err: notRun, least: 9 * time.Minute, bound: 11 * time.Minute},
		"may have run":          {reason: "a hook runs once", away: 24 * time.Hour, err: errors.New("the connection broke"), bound: time.Minute},
		"canceled":              {reason: "the end of ctx ends it, after one try", away: 24 * time.Hour, err: notRun, cancel: 2 * time.Minute, least: 2 * time.Minute, bound: 3 * time.Minute},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newCutLab(t, backuptest.ControllerOptions{}, append(claims("a"), hookedPod("pa", "a"))...)
				start, ran := time.Now(), 0
				l.quiescer.exec = func(_ context.Context, _, stage string) error {
					if stage == "post" {
						if time.Since(start) < tc.away {
							return tc.err
						}
						ran++
					}
					return nil
				}
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				if tc.cancel > 0 {
					time.AfterFunc(tc.cancel, stop)
				}
				report, err := l.cut(ctx, csisnapshot.Options{})
				if (err != nil) != (tc.cancel > 0) {
					t.Fatalf("Cut: %v", err)
				}
				if took := time.Since(start); took < tc.least || took > tc.bound || (ran == 1) != tc.ran || ran > 1 {
					t.Errorf("%d post hooks after %v, want %v between %v and %v: %s", ran, took, tc.ran, tc.least, tc.bound, tc.reason)
				}
				if got := podOf(t, report, "pa"); (got.Err == nil) != tc.ran {
					t.Errorf("pod: %+v", got)
				}
				// The intent is open until the hook has run: Thaw is what is left (S5).
				l.quiescer.exec = nil
				thawed, err := l.snapshotter(csisnapshot.Options{}).Thaw(t.Context(), cutOwner)
				if err != nil || (len(thawed) == 0) != tc.ran {
					t.Errorf("Thaw = %+v, %v", thawed, err)
				}
			})
		})
	}
}

// S8: Thaw, too, tries until the command is run.
func TestThawTriesAPostHookUntilItIsRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newCutLab(t, backuptest.ControllerOptions{}, append(claims("a"), hookedPod("pa", "a"))...)
		first := &process{lab: l, limit: 2}
		if _, err := first.live(t, cutOwner); err == nil {
			t.Fatal("not killed")
		}
		start := time.Now()
		l.quiescer.exec = func(context.Context, string, string) error {
			if time.Since(start) < 2*time.Minute {
				return csisnapshot.ErrNotRun
			}
			return nil
		}
		thawed, err := l.snapshotter(csisnapshot.Options{}).Thaw(t.Context(), cutOwner)
		if err != nil || len(thawed) != 1 || thawed[0].Outcome != csisnapshot.ThawDone || thawed[0].Err != nil {
			t.Errorf("Thaw = %+v, %v", thawed, err)
		}
	})
}
