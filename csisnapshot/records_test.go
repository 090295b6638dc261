package csisnapshot_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// Records are those of the contents, in the order asked, with their claims; another's snapshot and one that is gone have none.
func TestRecords(t *testing.T) {
	t.Parallel()
	onEachAdapter(t, func(t bubble) {
		l := newWaitLab(t.T, t.adapter, backuptest.ControllerOptions{}, 2)
		ref := l.ready(1)[0]
		foreign := l.createFor(restorer, 1)
		s := l.snapshotter(csisnapshot.WaitOptions{})
		if _, err := s.Wait(t.Context(), restorer, csisnapshot.StageReady, foreign); err != nil {
			t.Fatal(err)
		}
		gone := csisnapshot.Ref{Namespace: "app", Name: "gone"}
		got, err := s.Records(t.Context(), l.owner, gone, ref, foreign)
		if !errors.Is(err, csisnapshot.ErrNotFound) || !errors.Is(err, csisnapshot.ErrForeign) {
			t.Errorf("%v, want one not found and one of another", err)
		}
		want := []csisnapshot.VolumeRecord{{}, l.recordOf(ref), {}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
