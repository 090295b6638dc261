package csisnapshot_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

func TestWaitTellsAStackThatGaveUp(t *testing.T) {
	t.Parallel()
	// snap-10 S7: not ready, an error, not ready again, and then nothing: that is no progress, and no error of the driver's,
	// which would be told with its text.
	for name, tt := range map[string]struct {
		clears bool
		want   csisnapshot.Diagnosis
	}{"the error was taken back": {true, csisnapshot.DiagnosisNoProgress}, "the error stands": {false, csisnapshot.DiagnosisError}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := runScripted(t, 1, csisnapshot.WaitOptions{Timeout: 10 * time.Minute})
				s.api.contents.hold(0) // reads tell nothing, events all
				p := s.addAll(1)[0]
				time.Sleep(time.Minute)
				failed := begun(0)
				failed.SetResourceVersion("3")
				failed.Object["status"].(map[string]any)["error"] = map[string]any{"message": "no connection", "time": "2000-01-01T00:01:00Z"}
				s.api.contents.tell(failed)
				if tt.clears {
					time.Sleep(time.Minute)
					cleared := begun(0)
					cleared.SetResourceVersion("4")
					s.api.contents.tell(cleared)
				}
				_, err := p.Wait(t.Context(), csisnapshot.StageCut)
				e, ok := errors.AsType[*csisnapshot.WaitError](err)
				if !ok || e.Diagnosis != tt.want || !errors.Is(err, csisnapshot.ErrTimeout) || !strings.Contains(e.LastError, "no connection") {
					t.Errorf("%v, want a timeout with diagnosis %s that tells the last error", err, tt.want)
				}
				s.end(t, nil)
			})
		})
	}
}

func TestWaitLimitsOfTheDriverMayBeFinal(t *testing.T) {
	t.Parallel()
	// snap-26 snap-9 S6: a driver that allows so many snapshots of a volume says so in its text: a classifier that knows the driver
	// ends that wait at once, and that of no other; without one it is retried.
	synctest.Test(t, func(t *testing.T) {
		full := backuptest.Script{Errors: []backuptest.DriverError{{Code: "FailedPrecondition", Text: "the volume has 3 snapshots, which is the limit"}}}
		l := newWaitLab(t, "dynamic", backuptest.ControllerOptions{Scripts: map[string]backuptest.Script{"data-000": full}}, 2)
		var seen []csisnapshot.ErrorInfo
		limits := csisnapshot.ClassifierFunc(func(e csisnapshot.ErrorInfo) csisnapshot.Verdict {
			seen = append(seen, e)
			return csisnapshot.Verdict{Final: strings.Contains(e.Text, "which is the limit")}
		})
		w := l.run(t.Context(), csisnapshot.WaitOptions{Classifier: csisnapshot.PerDriver(map[string]csisnapshot.Classifier{backuptest.DefaultDriver: limits}, nil)})
		failing, good := w.add(0, csisnapshot.StageReady), w.add(1, csisnapshot.StageReady)
		if _, err := failing.Wait(t.Context(), csisnapshot.StageCut); !errors.Is(err, csisnapshot.ErrFinal) || l.at() > 5*time.Second {
			t.Errorf("after %v: %v, want a final error at once", l.at(), err)
		}
		if res, err := good.Wait(t.Context(), csisnapshot.StageReady); err != nil || !res.Ready {
			t.Errorf("the other: %+v, %v", res, err)
		}
		if err := w.finish(); err != nil {
			t.Error(err)
		}
		if len(seen) == 0 || seen[0].Driver != backuptest.DefaultDriver || seen[0].Kind == "" || seen[0].Code != "FailedPrecondition" || seen[0].Repeats < 1 {
			t.Errorf("the classifier was told %+v", seen)
		}
	})
}
