package csisnapshot_test

import (
	"errors"
	"testing"
	"time"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

func TestWaitErrorText(t *testing.T) {
	t.Parallel()
	// X2 S7: what was waited for and why it ended come first, then what was last seen.
	ended := time.Unix(1000, 0)
	ref := csisnapshot.Ref{Namespace: "shop", Name: "db-1"}
	tests := map[string]struct {
		err  csisnapshot.WaitError
		want string
	}{
		"final error": {
			csisnapshot.WaitError{
				Ref: ref, Content: "snapcontent-1", ReadyToUse: new(false), LastError: "no such\nvolume", ErrorKind: csisnapshot.KindContent,
				Diagnosis: csisnapshot.DiagnosisFinal, LastChange: ended.Add(-3 * time.Second), Ended: ended, Category: csisnapshot.ErrFinal,
			},
			"snapshot shop/db-1 not cut: final error: no such; volume (content snapcontent-1, readyToUse false, no handle, " +
				"last change 3s ago, diagnosis FinalError, error on the VolumeSnapshotContent)",
		},
		"never seen": {
			csisnapshot.WaitError{
				Ref: ref, Stage: csisnapshot.StageReady, Diagnosis: csisnapshot.DiagnosisNeverPickedUp, Ended: ended,
				Category: csisnapshot.ErrTimeout, Err: errors.Join(errors.New("one"), errors.New("two")),
			},
			"snapshot shop/db-1 not ready: timed out: one; two (no content, no handle, never seen, diagnosis NeverPickedUp)",
		},
		"an error and a cause": {
			csisnapshot.WaitError{
				Ref: ref, Handle: "h", LastError: "busy", ErrorKind: csisnapshot.KindSnapshot, Ended: ended, LastChange: ended,
				Category: csisnapshot.ErrTimeout, Err: errors.New("MaxWait of 1h is over"),
			},
			"snapshot shop/db-1 not cut: timed out: busy (no content, handle h, last change 0s ago, error on the VolumeSnapshot, MaxWait of 1h is over)",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tt.err.Error(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}
