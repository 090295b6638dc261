package csisnapshot_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/internal/race"
)

func TestSweepLooksAgainUntilQuiet(t *testing.T) {
	t.Parallel()
	// S10: whenever, up to the last look of a Sweep, a process of the owner's makes one more snapshot, it goes, too.
	swept := 0
	for before, more := 0, true; more && !t.Failed(); before += race.Scaled(1, 3) {
		synctest.Test(t, func(t *testing.T) {
			l := newWaitLab(t, "dynamic", backuptest.ControllerOptions{}, 2)
			m := &meddler{lab: l, ref: l.ready(1)[0], before: before, turn: make(chan struct{}, 1), act: func(ctx context.Context, m *meddler) {
				if _, err := m.lab.other().Snapshots().Create(ctx, m.lab.object(1)); err != nil {
					m.lab.Error(err)
				}
			}}
			report, err := m.snapshotter().Sweep(t.Context(), l.owner.UID, destroyAll)
			time.Sleep(20 * time.Minute)
			if got := l.left(); err != nil || got != "0 snapshots, 0 contents, 0 physical" {
				t.Errorf("one more before request %d, %q: Sweep = %+v, %v; left %s", before, m.step, report, err, got)
			}
			if more = m.acted; more {
				swept++
			}
		})
	}
	t.Logf("%d late snapshots swept, 0 left", swept)
}

func TestExpireSparesWhatIsRestoredMeanwhile(t *testing.T) {
	t.Parallel()
	// snap-45 S10: before each request of an Expire in turn somebody begins to restore from the physical snapshot. It is left alone
	// unless its deletion was sent before or was the next request, and no content says Delete any more.
	tests := map[string]struct {
		reason  string
		prepare func(l *waitLab, s *csisnapshot.Snapshotter, ref csisnapshot.Ref)
		keeps   bool // its content is left with the policy that it had, Delete, and its snapshot
	}{
		"released": {
			reason: "a content is made for it",
			prepare: func(l *waitLab, s *csisnapshot.Snapshotter, ref csisnapshot.Ref) {
				if _, err := s.Release(l.Context(), l.owner, ref); err != nil {
					l.Fatal(err)
				}
			},
		},
		"its namespace was deleted": {
			reason: "its content says Retain",
			prepare: func(l *waitLab, _ *csisnapshot.Snapshotter, ref csisnapshot.Ref) {
				if _, err := l.other().Contents().Patch(l.Context(), "", l.content(ref).Name, []byte(`{"spec":{"deletionPolicy":"Retain"}}`)); err != nil {
					l.Fatal(err)
				}
				time.Sleep(time.Second) // the controller has seen it
				if err := l.other().Snapshots().Delete(l.Context(), ref.Namespace, ref.Name, csisnapshot.Preconditions{}); err != nil {
					l.Fatal(err)
				}
				time.Sleep(time.Minute)
			},
		},
		"never released": {reason: "it has its snapshot", prepare: func(*waitLab, *csisnapshot.Snapshotter, csisnapshot.Ref) {}, keeps: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spared, late := 0, 0
			for before, more := 0, true; more && !t.Failed(); before += race.Scaled(1, 3) {
				synctest.Test(t, func(t *testing.T) {
					l := newWaitLab(t, "dynamic", backuptest.ControllerOptions{}, 1)
					l.addNamespace("elsewhere")
					ref := l.ready(1)[0]
					record := l.recordOf(ref)
					plain := l.snapshotter(csisnapshot.WaitOptions{})
					tt.prepare(l, plain, ref)
					m := &meddler{lab: l, ref: ref, before: before, turn: make(chan struct{}, 1), act: func(ctx context.Context, m *meddler) {
						if _, err := plain.Restore(ctx, restorer, "elsewhere", record); err != nil {
							m.lab.Error(err)
						}
					}}
					report, err := m.snapshotter().Expire(t.Context(), l.owner, csisnapshot.RemoveOptions{}, record)
					time.Sleep(20 * time.Minute)
					more = m.acted
					_, is := l.driver.Snapshot(record.Handle)
					unavoidable := m.destroyed || m.step == "delete volumesnapshots" || m.step == "delete volumesnapshotcontents"
					switch {
					case !m.acted && (is || err != nil):
						t.Errorf("without anybody: Expire = %+v, %v; kept %v", report, err, is)
					case m.acted && !is && !unavoidable:
						t.Errorf("restored before request %d, %q: Expire = %+v, %v; the snapshot is gone: %s", before, m.step, report, err, tt.reason)
					case m.acted && is && !errors.Is(err, csisnapshot.ErrInUse):
						t.Errorf("restored before request %d, %q: Expire = %+v, %v, want ErrInUse", before, m.step, report, err)
					case is:
						spared++
					case m.acted:
						late++
					}
					left, err := plain.Leftovers(t.Context(), l.owner.UID)
					for _, o := range left {
						if err != nil || o.Kind == csisnapshot.KindContent && !tt.keeps && o.Policy != csisnapshot.DeletionPolicyRetain {
							t.Errorf("restored before request %d, %q: %+v is left, %v, and who deletes it deletes the snapshot", before, m.step, o, err)
						}
					}
					if is {
						if _, err := plain.Sweep(t.Context(), restorer.UID, destroyAll); err != nil {
							t.Error(err)
						}
						_, err = plain.Expire(t.Context(), l.owner, csisnapshot.RemoveOptions{}, record)
						if got := l.left(); err != nil || got != "0 snapshots, 0 contents, 0 physical" {
							t.Errorf("afterwards: %v; left %s", err, got)
						}
					}
				})
			}
			t.Logf("%d spared, %d restores too late", spared, late)
		})
	}
}
