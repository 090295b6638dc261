package csisnapshot_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/internal/race"
)

// S7: S10: Timeout is time without progress of anything that is removed, so that a queue that is longer than it fails nobody;
// what somebody else keeps ends one Timeout after the last of the others, and is named.
func TestRemovalsWaitInTheQueue(t *testing.T) {
	t.Parallel()
	volumes, timeout := race.Scaled(60, 30), time.Duration(race.Scaled(8, 4))*time.Second
	synctest.Test(t, func(t *testing.T) {
		l := newWaitLab(t, "dynamic", backuptest.ControllerOptions{Rate: backuptest.RealRate}, volumes)
		refs := l.ready(volumes)
		kept := l.content(refs[0])
		l.setFinalizers(kept.Name, append(kept.Finalizers, "example.dev/keep")...)
		began := time.Now()
		report, err := l.snapshotter(csisnapshot.WaitOptions{Timeout: timeout}).Destroy(t.Context(), l.owner, refs...)
		took := time.Since(began)
		for _, item := range report.Items {
			held := item.Ref == refs[0]
			if item.Gone == held || (item.Err != nil) != held {
				t.Errorf("%s: gone %t, %v", item.Ref, item.Gone, item.Err)
			}
		}
		e, ok := errors.AsType[*csisnapshot.RemovalError](err)
		if !ok || !errors.Is(err, csisnapshot.ErrTimeout) || !slices.Contains(e.Finalizers, "example.dev/keep") {
			t.Errorf("error %v, want the one that is kept", err)
		}
		if took < 3*timeout {
			t.Errorf("the queue took %v, want one that is longer than the timeout of %v", took, timeout)
		}
	})
}
