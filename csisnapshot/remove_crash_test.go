package csisnapshot_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/internal/apirequest"
	"github.com/sheetanchor/sheetanchor/internal/race"
)

// on makes a snapshotter in a process that may crash.
func (l *waitLab) on(p *backuptest.Process, adapter string) *csisnapshot.Snapshotter {
	l.Helper()
	config := p.Config(l.cluster.Config())
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		l.Fatal(err)
	}
	s, err := csisnapshot.New(core, adapters[adapter](l.T, config), csisnapshot.Options{})
	if err != nil {
		l.Fatal(err)
	}
	return s
}

func TestRemovalsSurviveTroubleAtEachWrite(t *testing.T) {
	t.Parallel()
	// S10 X7 snap-50: a process that crashes at any write, or whose write fails or loses its answer, and is run again, ends
	// as one that met no trouble; one repeat more changes nothing.
	tests := map[string]struct {
		reason  string
		release bool // the objects are released before
		life    func(ctx context.Context, l *waitLab, s *csisnapshot.Snapshotter, refs []csisnapshot.Ref, records []csisnapshot.VolumeRecord) error
		want    string
	}{
		"release": {
			reason: "the physical snapshots stay",
			life: func(ctx context.Context, l *waitLab, s *csisnapshot.Snapshotter, refs []csisnapshot.Ref, _ []csisnapshot.VolumeRecord) error {
				_, err := s.Release(ctx, l.owner, refs...)
				return err
			},
			want: "0 snapshots, 0 contents, 2 physical",
		},
		"destroy": {
			reason: "nothing stays",
			life: func(ctx context.Context, l *waitLab, s *csisnapshot.Snapshotter, refs []csisnapshot.Ref, _ []csisnapshot.VolumeRecord) error {
				_, err := s.Destroy(ctx, l.owner, refs...)
				return err
			},
			want: "0 snapshots, 0 contents, 0 physical",
		},
		"sweep": {
			reason: "nothing stays, without any reference",
			life: func(ctx context.Context, l *waitLab, s *csisnapshot.Snapshotter, _ []csisnapshot.Ref, _ []csisnapshot.VolumeRecord) error {
				_, err := s.Sweep(ctx, l.owner.UID, csisnapshot.RemoveOptions{Policy: csisnapshot.DeletionPolicyDelete})
				return err
			},
			want: "0 snapshots, 0 contents, 0 physical",
		},
		"expire": {
			reason: "what was released is deleted through contents that are made for it", release: true,
			life: func(ctx context.Context, l *waitLab, s *csisnapshot.Snapshotter, _ []csisnapshot.Ref, records []csisnapshot.VolumeRecord) error {
				_, err := s.Expire(ctx, l.owner, csisnapshot.RemoveOptions{}, records...)
				return err
			},
			want: "0 snapshots, 0 contents, 0 physical",
		},
		"clone": {
			reason: "one pair for each",
			life: func(ctx context.Context, _ *waitLab, s *csisnapshot.Snapshotter, refs []csisnapshot.Ref, _ []csisnapshot.VolumeRecord) error {
				for _, ref := range refs {
					if _, err := s.Clone(ctx, restorer, ref, "app"); err != nil {
						return err
					}
				}
				return nil
			},
			want: "4 snapshots, 4 contents, 2 physical",
		},
	}
	kinds := []backuptest.Trouble{backuptest.CrashAfter, backuptest.CrashBefore, backuptest.LoseAnswer, backuptest.FailEffect}
	kinds = kinds[:race.Scaled(len(kinds), 1)]
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for crash := range backuptest.EachCrash(kinds...) {
				synctest.Test(t, func(t *testing.T) {
					l := newWaitLab(t, "dynamic", backuptest.ControllerOptions{}, 2)
					refs := l.ready(2)
					records := []csisnapshot.VolumeRecord{l.recordOf(refs[0]), l.recordOf(refs[1])}
					if tt.release {
						if _, err := l.snapshotter(csisnapshot.WaitOptions{}).Release(t.Context(), l.owner, refs...); err != nil {
							t.Fatal(err)
						}
					}
					life := func(ctx context.Context, p *backuptest.Process) error {
						return tt.life(ctx, l, l.on(p, "dynamic"), refs, records)
					}
					if err := crash.Run(t.Context(), life); err != nil {
						t.Fatalf("%v: %v", crash, err)
					}
					if got := l.left(); got != tt.want {
						t.Errorf("%v: left %s, want %s: %s", crash, got, tt.want, tt.reason)
					}
					if err := backuptest.NewCrash().Run(t.Context(), life); err != nil || l.left() != tt.want {
						t.Errorf("%v: once more: left %s, %v", crash, l.left(), err)
					}
				})
				if t.Failed() {
					return
				}
			}
		})
	}
}

// troubleOf is what a request of a release meets.
type troubleOf string

func TestReleaseLosesNothing(t *testing.T) {
	t.Parallel()
	// S10: whatever fails or loses its answer of the policy's patch, its read-back and the two deletes, in every combination,
	// the driver still has the physical snapshot and the objects are gone. A controller that has not seen Retain yet deletes
	// the content itself, so that Release has nothing to delete.
	const good, fails, lost = troubleOf("good"), troubleOf("fails"), troubleOf("lost answer")
	steps := []string{"patch volumesnapshotcontents", "get volumesnapshotcontents", "delete volumesnapshots", "delete volumesnapshotcontents"}
	for n := 0; n < 81+27; n += race.Scaled(1, 7) { // no multiple of three, so that each step meets each trouble
		behind := n >= 81
		met, name := map[string]troubleOf{}, []string{map[bool]string{true: "behind", false: "caught up"}[behind]}
		for rest, i := n%81, 0; i < len(steps); rest, i = rest/3, i+1 {
			met[steps[i]] = []troubleOf{good, fails, lost}[rest%3]
			name = append(name, string(met[steps[i]]))
		}
		t.Run(strings.Join(name, ","), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newWaitLab(t, "dynamic", backuptest.ControllerOptions{}, 1)
				refs := l.ready(1)
				synctest.Wait() // the content has its finalizer, without which it would go at once
				content := l.content(refs[0]).Name
				var patched bool
				var mu sync.Mutex
				config := l.cluster.Config()
				config.Wrap(func(next http.RoundTripper) http.RoundTripper {
					return roundTripper(func(r *http.Request) (*http.Response, error) {
						info := apirequest.Parse(r)
						step := info.Verb + " " + info.Resource
						mu.Lock()
						trouble := met[step]
						if step != steps[1] || patched { // the read that counts is the one after the patch
							met[step] = good
						} else {
							trouble = good
						}
						patched = patched || step == steps[0] && trouble != fails
						mu.Unlock()
						if trouble == fails {
							return nil, fmt.Errorf("%s fails", step)
						}
						if step == steps[2] && behind {
							_ = l.other().Contents().Delete(r.Context(), "", content, csisnapshot.Preconditions{}) // a second time it is gone
						}
						if step == steps[2] {
							time.Sleep(time.Second) // the controller has seen all that was written
						}
						resp, err := next.RoundTrip(r)
						if trouble == lost && err == nil {
							_ = resp.Body.Close()
							return nil, fmt.Errorf("the answer of %s is lost", step)
						}
						return resp, err
					})
				})
				client, err := dynamic.NewForConfig(config)
				if err != nil {
					t.Fatal(err)
				}
				s, err := csisnapshot.New(l.core(), csisnapshot.NewDynamic(client), csisnapshot.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := s.Release(t.Context(), l.owner, refs...); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Hour) // nothing goes later
				if got := l.left(); got != "0 snapshots, 0 contents, 1 physical" {
					t.Errorf("left %s", got)
				}
				for _, step := range steps {
					if met[step] != good {
						t.Errorf("%s met no trouble: the test lost its hold", step)
					}
				}
			})
		})
	}
}
