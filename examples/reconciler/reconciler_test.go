package reconciler_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/examples/reconciler"
)

func TestSurvivesEveryCrash(t *testing.T) {
	for crash := range backuptest.EachCrash() {
		synctest.Test(t, func(t *testing.T) {
			cluster := backuptest.New(t, backuptest.Options{Resources: kinds, Objects: objects})
			driver := backuptest.RunSnapshots(t, cluster, slow)

			err := crash.Run(t.Context(), func(ctx context.Context, p *backuptest.Process) error {
				r := reconciler.Reconciler{Client: dynamic.NewForConfigOrDie(p.Config(cluster.Config()))}
				for {
					after, err := r.Reconcile(ctx, "shop", "nightly")
					if err != nil || after == 0 {
						return err
					}
					time.Sleep(after)
				}
			})
			if err != nil {
				t.Errorf("%v: %v", crash, err)
			}
			if got := len(driver.Snapshots()); got != 1 {
				t.Errorf("%v: the storage holds %d snapshots, want one", crash, got)
			}
		})
	}
}
