package finalize_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/finalize"
)

// F7: a claim that is never bound ends at the shorter of the two deadlines, which the error tells; refusals count as final
// only when no answer came between them.
func TestRestorePVsGivesUp(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		opts   finalize.RestorePVOptions
		refuse time.Duration // when a list is refused for the second time; 0: none is
		want   time.Duration
	}{
		"all of them":    {"Timeout ends the wait", finalize.RestorePVOptions{Timeout: 2 * time.Minute}, 0, 2 * time.Minute},
		"one":            {"ItemTimeout ends the wait", finalize.RestorePVOptions{ItemTimeout: 3 * time.Minute}, 0, 3 * time.Minute},
		"refused, twice": {"each is the first of its kind", finalize.RestorePVOptions{ItemTimeout: 3 * time.Minute}, 30 * time.Second, 3 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				objects := pending("data", func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("fast") })
				objects = append(objects, backuptest.Objects(backuptest.StorageClass{Name: "fast", Driver: "csi.example.dev"})...)
				cluster := backuptest.New(t, backuptest.Options{Objects: objects})
				if tc.refuse > 0 {
					refuse := func() {
						cluster.Fault(backuptest.Fault{Verb: "list", Resource: "persistentvolumeclaims", Code: http.StatusForbidden, Times: 1})
					}
					refuse()
					defer time.AfterFunc(tc.refuse, refuse).Stop()
				}
				got, start := ends{}, time.Now()
				tc.opts.Ended = got.add
				runOnce(t, finalize.RestorePVs(coreOf(t, cluster), []finalize.RestoredVolume{restored("data")}, tc.opts))
				o, took := got.all["data"], time.Since(start)
				if !errors.Is(o.Err, finalize.ErrNotBound) || apierrors.IsForbidden(o.Err) || !strings.Contains(o.Err.Error(), "gave up after "+tc.want.String()) || took != tc.want {
					t.Errorf("after %v: %v, want ErrNotBound after %v (%s)", took, o.Err, tc.want, tc.reason)
				}
			})
		})
	}
}
