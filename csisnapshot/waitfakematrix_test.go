package csisnapshot_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/kubernetes-csi/external-snapshotter/client/v6/apis/volumesnapshot/v1"
	fakev6 "github.com/kubernetes-csi/external-snapshotter/client/v6/clientset/versioned/fake"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/csisnapshot/snapv6"
)

// fakeLab is the bare v6 fake with one snapshot. What the controller does goes past the reactors.
type fakeLab struct {
	*testing.T

	clients *fakev6.Clientset
	start   time.Time
	object  csisnapshot.Snapshot
}

func newFakeLab(t *testing.T) *fakeLab {
	t.Helper()
	return &fakeLab{T: t, clients: fakev6.NewSimpleClientset(), start: time.Now(), object: fakeObject(0)}
}

// cut makes the content with a handle.
func (l *fakeLab) cut() {
	l.Helper()
	err := l.clients.Tracker().Create(fakeGroup.WithResource("volumesnapshotcontents"), &v1.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: "content"},
		Spec:       v1.VolumeSnapshotContentSpec{VolumeSnapshotRef: corev1.ObjectReference{Namespace: l.object.Namespace, Name: l.object.Name}},
		Status:     &v1.VolumeSnapshotContentStatus{SnapshotHandle: new("handle")},
	}, "")
	if err != nil {
		l.Error(err)
	}
}

// ready sets the snapshot's status.
func (l *fakeLab) ready() {
	l.Helper()
	gvr := fakeGroup.WithResource("volumesnapshots")
	stored, err := l.clients.Tracker().Get(gvr, l.object.Namespace, l.object.Name)
	if err != nil {
		l.Error(err)
		return
	}
	o := stored.DeepCopyObject().(*v1.VolumeSnapshot)
	o.Status = &v1.VolumeSnapshotStatus{ReadyToUse: new(true), BoundVolumeSnapshotContentName: new("content")}
	if err := l.clients.Tracker().Update(gvr, o, l.object.Namespace); err != nil {
		l.Error(err)
	}
}

// answer has requests answered with an error for a time; zero is for ever.
func (l *fakeLab) answer(verb, resource string, err error, lasts time.Duration) {
	l.clients.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		return lasts == 0 || time.Since(l.start) < lasts, nil, err
	})
}

// watches has the first watches replaced.
func (l *fakeLab) watches(resource string, times int, open func() (watch.Interface, error)) {
	l.clients.PrependWatchReactor(resource, func(clienttesting.Action) (bool, watch.Interface, error) {
		if times--; times < 0 {
			return false, nil, nil
		}
		w, err := open()
		return true, w, err
	})
}

// ended is a watch that ends after the events.
func ended(events ...watch.Event) func() (watch.Interface, error) {
	return func() (watch.Interface, error) {
		w := watch.NewFakeWithChanSize(len(events), false)
		for _, e := range events {
			w.Action(e.Type, e.Object)
		}
		w.Stop()
		return w, nil
	}
}

var (
	forbidden  = apierrors.NewForbidden(schema.GroupResource{Group: fakeGroup.Group, Resource: "x"}, "", errors.New("no"))
	fakeErrors = map[string]error{
		"refused":     errors.New("connection refused"),
		"429":         apierrors.NewTooManyRequests("busy", 2),
		"500":         apierrors.NewInternalError(errors.New("broken")),
		"503":         apierrors.NewServiceUnavailable("down"),
		"timeout":     context.DeadlineExceeded,
		"forbidden":   forbidden,
		"unavailable": apierrors.NewTimeoutError("slow", 1),
	}
	expired = watch.Event{Type: watch.Error, Object: &metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired}}
)

// fakeTroubles are what reactors do on the fake, by name.
func fakeTroubles(resource string) map[string]func(*fakeLab) {
	all := map[string]func(*fakeLab){
		"watch/EOF at once": func(l *fakeLab) { l.watches(resource, 4, ended()) },
		"watch/410":         func(l *fakeLab) { l.watches(resource, 2, ended(expired)) },
		"watch/silent": func(l *fakeLab) {
			l.watches(resource, 1<<30, func() (watch.Interface, error) { return watch.NewFake(), nil })
		},
		"watch/forbidden": func(l *fakeLab) {
			l.watches(resource, 1<<30, func() (watch.Interface, error) { return nil, forbidden })
		},
		"watch/500 twice": func(l *fakeLab) {
			l.watches(resource, 2, func() (watch.Interface, error) { return nil, fakeErrors["500"] })
		},
	}
	for name, err := range fakeErrors {
		for _, verb := range []string{"get", "list"} {
			if name != "forbidden" {
				all[verb+"/"+name+" for 8 s"] = func(l *fakeLab) { l.answer(verb, resource, err, 8*time.Second) }
				continue
			}
			all[verb+"/"+name] = func(l *fakeLab) { l.answer(verb, resource, err, 0) }
			all[verb+"/"+name+" for 2 s"] = func(l *fakeLab) { l.answer(verb, resource, err, 2*time.Second) }
		}
	}
	return all
}

func TestFaultMatrixOnTheBareFake(t *testing.T) {
	t.Parallel()
	// S1 S8 B4 snap-17 all-3 all-5: what the matrix holds on a server holds on the bare v6 fake, which has no UIDs, no versions and
	// a gap between list and watch.
	for _, resource := range []string{"volumesnapshots", "volumesnapshotcontents"} {
		for name, trouble := range fakeTroubles(resource) {
			for _, mode := range []csisnapshot.Mode{csisnapshot.ModeWatch, csisnapshot.ModePoll} {
				for _, cut := range cuts {
					t.Run(fmt.Sprintf("%s %s/%s/%v", resource, name, mode, cut), func(t *testing.T) {
						t.Parallel()
						synctest.Test(t, func(t *testing.T) {
							l := newFakeLab(t)
							trouble(l)
							byName := resource == "volumesnapshotcontents" && mode == csisnapshot.ModePoll
							l.rideOut(mode, cut, name == "list/forbidden" || name == "get/forbidden" && byName)
						})
					})
				}
			}
		}
	}
}

// rideOut waits for the snapshot.
func (l *fakeLab) rideOut(mode csisnapshot.Mode, cut time.Duration, forbids bool) {
	client := snapv6.New(l.clients)
	w, err := csisnapshot.NewWaiter(client, csisnapshot.WaitOptions{Mode: mode, Timeout: matrixTimeout}, fakeOwner, fakeNames, []string{"app"})
	if err != nil {
		l.Fatal(err)
	}
	vs, err := client.Snapshots().Create(l.Context(), l.object)
	if err != nil {
		l.Fatal(err)
	}
	if cut > 0 {
		time.AfterFunc(cut, l.cut)
		time.AfterFunc(cut+time.Second, l.ready)
	}
	outcome := w.Wait(l.Context(), []csisnapshot.Target{{Snapshot: &vs}}, csisnapshot.StageReady)[0]
	took := time.Since(l.start)
	switch {
	case forbids && errors.Is(outcome.Err, csisnapshot.ErrForbidden) && took < time.Minute:
	case cut == 0:
		if !errors.Is(outcome.Err, csisnapshot.ErrTimeout) || took < matrixTimeout || took > matrixTimeout+time.Minute {
			l.Errorf("after %v: %v, want one timeout", took, outcome.Err)
		}
	case outcome.Err != nil || outcome.Result.Handle != "handle" || took > cut+2*time.Minute:
		l.Errorf("after %v: %+v", took, outcome)
	}
	for _, action := range l.clients.Actions()[1:] {
		if !slices.Contains([]string{"get", "list", "watch"}, action.GetVerb()) {
			l.Errorf("%s %s: waiting changes nothing", action.GetVerb(), action.GetResource().Resource)
		}
	}
}

func TestWaitEventsBetweenListAndWatch(t *testing.T) {
	t.Parallel()
	// all-3 all-4 S1: what happens between the list and the watch is told by no event, and is found at once.
	for name, gone := range map[string]bool{"it becomes ready": false, "it is deleted": true} {
		for _, resource := range []string{"volumesnapshots", "volumesnapshotcontents"} {
			t.Run(name+" before "+resource, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					l := newFakeLab(t)
					client := snapv6.New(l.clients)
					vs, err := client.Snapshots().Create(t.Context(), l.object)
					if err != nil {
						t.Fatal(err)
					}
					l.clients.PrependWatchReactor(resource, func(clienttesting.Action) (bool, watch.Interface, error) {
						if gone {
							if err := l.clients.Tracker().Delete(fakeGroup.WithResource("volumesnapshots"), vs.Namespace, vs.Name); err != nil {
								t.Error(err)
							}
						} else {
							l.cut()
							l.ready()
						}
						return false, nil, nil
					})
					w, err := csisnapshot.NewWaiter(client, csisnapshot.WaitOptions{}, fakeOwner, fakeNames, []string{"app"})
					if err != nil {
						t.Fatal(err)
					}
					outcome := w.Wait(t.Context(), []csisnapshot.Target{{Snapshot: &vs}}, csisnapshot.StageReady)[0]
					if took := time.Since(l.start); gone != errors.Is(outcome.Err, csisnapshot.ErrDeleted) || gone == outcome.Result.Ready || took != 0 {
						t.Errorf("after %v: %+v", took, outcome)
					}
				})
			})
		}
	}
}

func TestWaitPollsOnScheduleOnTheBareFake(t *testing.T) {
	t.Parallel()
	// S1 B4: one round at each instant of the schedule, to the millisecond, with numbers of one's own, too.
	for name, schedule := range map[string]csisnapshot.Schedule{
		"default": {}, "own": {Fast: 700 * time.Millisecond, FastFor: 5 * time.Second, Slow: 3300 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newFakeLab(t)
				rounds := map[string][]time.Duration{}
				for _, resource := range []string{"volumesnapshots", "volumesnapshotcontents"} {
					l.clients.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
						rounds[resource] = append(rounds[resource], time.Since(l.start).Round(time.Millisecond))
						return false, nil, nil
					})
				}
				client := snapv6.New(l.clients)
				vs, err := client.Snapshots().Create(t.Context(), l.object)
				if err != nil {
					t.Fatal(err)
				}
				const end = 32 * time.Second
				opts := csisnapshot.WaitOptions{Mode: csisnapshot.ModePoll, Schedule: schedule, SafetyRead: time.Hour, Timeout: 5 * time.Hour, MaxWait: end}
				w, err := csisnapshot.NewWaiter(client, opts, fakeOwner, fakeNames, []string{"app"})
				if err != nil {
					t.Fatal(err)
				}
				outcome := w.Wait(t.Context(), []csisnapshot.Target{{Snapshot: &vs, Created: true}}, csisnapshot.StageCut)[0]
				if !errors.Is(outcome.Err, csisnapshot.ErrTimeout) {
					t.Errorf("%v, want the end of MaxWait", outcome.Err)
				}
				for resource, got := range rounds {
					if want := instants(schedule, end-1); !slices.Equal(got, want) {
						t.Errorf("%s at %v, want %v", resource, got, want)
					}
				}
				if len(rounds) != 2 {
					t.Errorf("rounds of %d resources, want 2", len(rounds))
				}
			})
		})
	}
}
