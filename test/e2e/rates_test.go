package e2e_test

import (
	"sync"
	"testing"
	"time"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/test/e2e/app"
)

// atDefault is how many snapshots TestDefaultRates takes. At the controller's default rate they take minutes.
const atDefault = 100

// S7: S10: snap-1: snap-37: snap-39: 100 snapshots on controllers with their default rates, of which one takes two seconds: none times
// out, though the whole takes far longer than the time without progress that is allowed. Then half of them are released and half destroyed,
// at once; what the driver holds afterwards are exactly those that were released.
func TestDefaultRates(t *testing.T) {
	t.Parallel()
	ownStack(t, nil)
	a := application(t, "rates", app.Spec{Claims: app.Named(app.Numbered("v", atDefault)...)})
	const timeout = 45 * time.Second
	snapshots := library(t, a, csisnapshot.Options{Wait: csisnapshot.WaitOptions{Timeout: timeout}})
	owner := ownerOf(a, "nightly")
	report := cut(t, snapshots, a, owner)
	t.Logf("%d snapshots cut in %.1f s", atDefault, report.Duration.Seconds())
	if report.Duration < timeout {
		t.Errorf("all were cut in %v: the controllers are not held back, so that the timeout of %v was not at stake", report.Duration, timeout)
	}
	judge(t, a, atDefault, atDefault)

	removing := library(t, a, csisnapshot.Options{})
	began := time.Now()
	all := refs(report.Volumes)
	var both sync.WaitGroup
	both.Go(func() {
		released, err := removing.Release(within(t, 2*bound), owner, all[:atDefault/2]...)
		if err != nil {
			t.Errorf("Release of %d: %v", len(released.Items), err)
		}
		t.Logf("%d released in %.1f s", atDefault/2, time.Since(began).Seconds())
	})
	both.Go(func() {
		destroyed, err := removing.Destroy(within(t, 2*bound), owner, all[atDefault/2:]...)
		if err != nil {
			t.Errorf("Destroy of %d: %v", len(destroyed.Items), err)
		}
		t.Logf("%d destroyed in %.1f s", atDefault/2, time.Since(began).Seconds())
	})
	both.Wait()
	clean(t, a)
	judge(t, a, atDefault, atDefault/2)
}
