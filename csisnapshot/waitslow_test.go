package csisnapshot_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// S1, S8: the answer to a read is on its way while the object changes, and the watch tells of that at once. The read then is
// no news: no watch is taken for a silent one, which would replace it by polling.
func TestWaitReadsThatAreOvertaken(t *testing.T) {
	t.Parallel()
	onEachAdapter(t, func(t bubble) {
		l := newWaitLab(t.T, t.adapter, scripts(1, backuptest.Script{Silent: true}), 1)
		var overtaken atomic.Int32
		slow := func(verb, resource string, change func(patch []byte) error) {
			l.cluster.Fault(backuptest.Fault{
				Verb: verb, Resource: resource, Action: backuptest.FaultTrickle, Latency: 500 * time.Millisecond, After: 1 << 20,
				Observe: func(backuptest.Request) {
					patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.dev/count":"%d"}}}`, overtaken.Add(1))
					if err := change(patch); err != nil {
						t.Error(err)
					}
				},
			})
		}
		w := l.run(t.Context(), csisnapshot.WaitOptions{
			Timeout: time.Hour, SafetyRead: time.Minute,
			Events: csisnapshot.WaitEvents{ModeChanged: func(c csisnapshot.ModeChange) {
				t.Errorf("after %v: %s by %s: %v", l.at(), c.Resource, c.Mode, c.Err)
			}},
		})
		w.add(0, csisnapshot.StageCut)
		time.Sleep(30 * time.Second)
		made, err := l.client.Snapshots().Get(t.Context(), "app", l.ref(0).Name)
		if err != nil {
			t.Fatal(err)
		}
		slow("list", "volumesnapshots", func(patch []byte) error {
			_, err := l.client.Snapshots().Patch(t.Context(), "app", l.ref(0).Name, patch)
			return err
		})
		slow("get", "volumesnapshotcontents", func(patch []byte) error {
			_, err := l.client.Contents().Patch(t.Context(), "", csisnapshot.ContentName(made.UID), patch)
			return err
		})
		time.Sleep(5 * time.Minute)
		if got := overtaken.Load(); got < 6 {
			t.Errorf("%d reads were overtaken, want one or more a minute of each kind", got)
		}
		w.Close()
		if err := <-w.done; err != nil {
			t.Error(err)
		}
	})
}
