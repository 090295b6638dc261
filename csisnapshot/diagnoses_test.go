package csisnapshot_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/kubernetes-csi/external-snapshotter/client/v6/apis/volumesnapshot/v1"
	fakev6 "github.com/kubernetes-csi/external-snapshotter/client/v6/clientset/versioned/fake"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	clienttesting "k8s.io/client-go/testing"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/csisnapshot/snapv6"
)

// stage is where histories are played: an API whose controllers are the test.
type stage struct {
	*testing.T

	client csisnapshot.Client
	store  func(kind, object string)             // adds an object as it is
	status func(of csisnapshot.Ref, text string) // writes a snapshot's status
	forbid func()                                // refuses all that is asked about snapshots from now on
}

// stages are the APIs.
var stages = map[string]func(t *testing.T) *stage{
	"backuptest": func(t *testing.T) *stage {
		t.Helper()
		cluster := backuptest.New(t, backuptest.Options{Objects: backuptest.Objects(backuptest.Claim{Namespace: "app", Name: "data-0"})})
		client, err := dynamic.NewForConfig(cluster.Config())
		if err != nil {
			t.Fatal(err)
		}
		snapshots := client.Resource(staleSnapshots).Namespace("app")
		return &stage{
			T: t, client: csisnapshot.NewDynamic(client), store: func(kind, object string) { add(t, cluster, kind, object) },
			status: func(of csisnapshot.Ref, text string) {
				if _, err := snapshots.Patch(t.Context(), of.Name, types.MergePatchType, []byte(`{"status":`+text+`}`), metav1.PatchOptions{}, "status"); err != nil {
					t.Error(err)
				}
			},
			forbid: func() { cluster.Fault(backuptest.Fault{Resource: "volumesnapshots", Code: 403}) },
		}
	},
	"client/v6": func(t *testing.T) *stage {
		t.Helper()
		clients := fakev6.NewSimpleClientset()
		gvr := fakeGroup.WithResource("volumesnapshots")
		return &stage{
			T: t, client: snapv6.New(clients),
			store: func(kind, object string) {
				var o runtime.Object = &v1.VolumeSnapshot{}
				if kind != "VolumeSnapshot" {
					o = &v1.VolumeSnapshotContent{}
				}
				if err := errors.Join(json.Unmarshal([]byte(object), o), clients.Tracker().Add(o)); err != nil {
					t.Error(err)
				}
			},
			status: func(of csisnapshot.Ref, text string) {
				stored, err := clients.Tracker().Get(gvr, of.Namespace, of.Name)
				if err != nil {
					t.Error(err)
					return
				}
				o := stored.DeepCopyObject().(*v1.VolumeSnapshot)
				if err := errors.Join(json.Unmarshal([]byte(`{"status":`+text+`}`), o), clients.Tracker().Update(gvr, o, of.Namespace)); err != nil {
					t.Error(err)
				}
			},
			forbid: func() {
				refuse := func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, forbidden }
				clients.PrependReactor("*", "volumesnapshots", refuse)
				clients.PrependWatchReactor("volumesnapshots", clienttesting.DefaultWatchReactor(nil, forbidden))
			},
		}
	},
}

// create makes the nth snapshot.
func (s *stage) create(n int) csisnapshot.Snapshot {
	s.Helper()
	vs, err := s.client.Snapshots().Create(s.Context(), fakeObject(n))
	if err != nil {
		s.Fatal(err)
	}
	return vs
}

// content makes the content of a snapshot, with a status unless that is empty.
func (s *stage) content(of csisnapshot.Snapshot, driver, status string) {
	if status != "" {
		status = `,"status":` + status
	}
	name := csisnapshot.ContentName(of.UID)
	s.store("VolumeSnapshotContent", fmt.Sprintf(
		`{"metadata":{"name":%q},"spec":{"deletionPolicy":"Delete","driver":%q,"source":{"volumeHandle":"v"},"volumeSnapshotRef":{"namespace":%q,"name":%q,"uid":%q}}%s}`,
		name, driver, of.Namespace, of.Name, of.UID, status))
	s.status(of.Ref(), `{"readyToUse":false,"boundVolumeSnapshotContentName":"`+name+`"}`)
}

// told is what is waited for: what a history does not say is a snapshot that was just created.
type told struct {
	target csisnapshot.Target
	other  *csisnapshot.Target // waited for beside it
}

func TestEveryDiagnosis(t *testing.T) {
	t.Parallel()
	// S1 S7 B4: each history has one diagnosis, the same by watch and by poll, on a server and on the bare v6 fake, with the cause
	// and the next thing to look at.
	const driver = "csi.example.dev"
	rpc := func(code, text string) string {
		return fmt.Sprintf(`{"error":{"message":"Failed to check and update snapshot content: failed to take snapshot of the volume v: \"rpc error: code = %s desc = %s\""}}`, code, text)
	}
	fresh := func(s *stage) told {
		vs := s.create(0)
		return told{target: csisnapshot.Target{Snapshot: &vs, Driver: driver, Created: true}}
	}
	// later has the history go on after half a minute.
	later := func(next func(s *stage, vs csisnapshot.Snapshot)) func(s *stage) told {
		return func(s *stage) told {
			what := fresh(s)
			time.AfterFunc(30*time.Second, func() { next(s, *what.target.Snapshot) })
			return what
		}
	}
	tests := map[csisnapshot.Diagnosis]struct {
		reason   string
		play     func(s *stage) told
		afterOf  bool // it is added when the driver has stalled
		refused  bool // all that is asked about snapshots, from the start
		category error
		cause    string
	}{
		csisnapshot.DiagnosisNeverPickedUp: {reason: "nothing touches it", play: fresh, category: csisnapshot.ErrTimeout},
		csisnapshot.DiagnosisQueued: {
			reason: "another of the driver is picked up", category: csisnapshot.ErrTimeout,
			play: func(s *stage) told {
				what, other := fresh(s), s.create(1)
				what.other = &csisnapshot.Target{Snapshot: &other, Driver: driver, Created: true}
				time.AfterFunc(30*time.Second, func() { s.content(other, driver, `{"readyToUse":false}`) })
				return what
			},
		},
		csisnapshot.DiagnosisSidecarSilent: {
			reason: "the content is left alone", category: csisnapshot.ErrTimeout,
			play: later(func(s *stage, vs csisnapshot.Snapshot) { s.content(vs, driver, "") }),
		},
		csisnapshot.DiagnosisClassMissing: {
			reason: "the controller's text", category: csisnapshot.ErrTimeout, cause: `"nowhere" not found`,
			play: later(func(s *stage, vs csisnapshot.Snapshot) {
				s.status(vs.Ref(), `{"readyToUse":false,"error":{"message":"Failed to get snapshot class with error volumesnapshotclass.snapshot.storage.k8s.io \"nowhere\" not found"}}`)
			}),
		},
		csisnapshot.DiagnosisClassOfAnother: {
			reason: "no sidecar takes it", category: csisnapshot.ErrTimeout,
			play: later(func(s *stage, vs csisnapshot.Snapshot) { s.content(vs, "other.example.dev", "") }),
		},
		csisnapshot.DiagnosisError: {
			reason: "the stack retries", category: csisnapshot.ErrTimeout, cause: "Internal: disk full",
			play: later(func(s *stage, vs csisnapshot.Snapshot) { s.content(vs, driver, rpc("Internal", "disk full")) }),
		},
		csisnapshot.DiagnosisFinal: {
			reason: "the classifier says so", category: csisnapshot.ErrFinal, cause: "InvalidArgument: no such volume",
			play: later(func(s *stage, vs csisnapshot.Snapshot) {
				s.content(vs, driver, rpc("InvalidArgument", "no such volume"))
			}),
		},
		csisnapshot.DiagnosisNoProgress: {
			reason: "the driver was asked", category: csisnapshot.ErrTimeout,
			play: later(func(s *stage, vs csisnapshot.Snapshot) { s.content(vs, driver, `{"readyToUse":false}`) }),
		},
		csisnapshot.DiagnosisNotFound: {
			reason: "it was never made", category: csisnapshot.ErrNotFound,
			play: func(*stage) told { return told{target: csisnapshot.Target{Ref: fakeObject(0).Ref(), Driver: driver}} },
		},
		csisnapshot.DiagnosisDeleted: {
			reason: "someone else does that", category: csisnapshot.ErrDeleted,
			play: later(func(s *stage, vs csisnapshot.Snapshot) {
				if err := s.client.Snapshots().Delete(s.Context(), vs.Namespace, vs.Name, csisnapshot.Preconditions{}); err != nil {
					s.Error(err)
				}
			}),
		},
		csisnapshot.DiagnosisReplaced: {
			reason: "while nobody watched", category: csisnapshot.ErrReplaced,
			play: func(s *stage) told {
				meta, err := json.Marshal(map[string]any{
					"name": fakeObject(0).Name, "namespace": "app", "uid": "second", "labels": fakeObject(0).Labels, "annotations": fakeObject(0).Annotations,
				})
				if err != nil {
					s.Fatal(err)
				}
				s.store("VolumeSnapshot", `{"metadata":`+string(meta)+`,"spec":{"source":{"persistentVolumeClaimName":"data-0"}}}`)
				return told{target: csisnapshot.Target{Ref: fakeObject(0).Ref(), UID: "first", Driver: driver}}
			},
		},
		csisnapshot.DiagnosisNotStarted: {
			reason: "its driver has stalled with another", category: csisnapshot.ErrNotStarted, afterOf: true,
			play: func(s *stage) told {
				what, other := fresh(s), s.create(1)
				what.other = &csisnapshot.Target{Snapshot: &other, Driver: driver, Created: true}
				return what
			},
		},
		csisnapshot.DiagnosisUnreadable: {
			reason: "no role allows it", category: csisnapshot.ErrForbidden, refused: true,
			play: func(*stage) told { return told{target: csisnapshot.Target{Ref: fakeObject(0).Ref(), Driver: driver}} },
		},
	}
	for want, tt := range tests {
		for api, open := range stages {
			for _, mode := range []csisnapshot.Mode{csisnapshot.ModeWatch, csisnapshot.ModePoll} {
				t.Run(fmt.Sprintf("%s/%s/%s", want, api, mode), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						s := open(t)
						opts := csisnapshot.WaitOptions{Mode: mode, Classifier: csisnapshot.FinalCodes("InvalidArgument")}
						w, err := csisnapshot.NewWaiter(s.client, opts, fakeOwner, fakeNames, []string{"app"})
						if err != nil {
							t.Fatal(err)
						}
						if tt.refused {
							s.create(0)
							s.forbid()
						}
						done := make(chan error, 1)
						go func() { done <- w.Run(t.Context()) }()
						<-w.Opened()
						what := tt.play(s)
						if what.other != nil {
							w.Add(*what.other, csisnapshot.StageReady)
						}
						if tt.afterOf {
							<-w.Stalled(driver)
						}
						_, err = w.Add(what.target, csisnapshot.StageReady).Wait(t.Context(), csisnapshot.StageReady)
						w.Close()
						if err := <-done; err != nil {
							t.Error(err)
						}
						e, ok := errors.AsType[*csisnapshot.WaitError](err)
						if !ok || e.Diagnosis != want || !errors.Is(e, tt.category) {
							t.Fatalf("%v, want %s and %v: %s", err, want, tt.category, tt.reason)
						}
						if x := e.Explain(); x.Diagnosis != want || x.Next == "" || !strings.Contains(x.Cause, tt.cause) {
							t.Errorf("%+v, want the cause %q", x, tt.cause)
						}
					})
				})
			}
		}
	}
}

func TestWaitThatCannotReadBesideAWatch(t *testing.T) {
	t.Parallel()
	// S7 X2: a watch that is open may yet tell of a snapshot that cannot be read, so the wait goes on; at its end it says that
	// nothing could be read, and why, not that nobody picked the snapshot up.
	for api, open := range stages {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := open(t)
				s.create(0)
				w, err := csisnapshot.NewWaiter(s.client, csisnapshot.WaitOptions{}, fakeOwner, fakeNames, []string{"app"})
				if err != nil {
					t.Fatal(err)
				}
				done := make(chan error, 1)
				go func() { done <- w.Run(t.Context()) }()
				<-w.Opened()
				s.forbid()
				p := w.Add(csisnapshot.Target{Ref: fakeObject(0).Ref(), Driver: "d"}, csisnapshot.StageReady)
				_, err = p.Wait(t.Context(), csisnapshot.StageReady)
				e, ok := errors.AsType[*csisnapshot.WaitError](err)
				if !ok || e.Diagnosis != csisnapshot.DiagnosisUnreadable || !errors.Is(e, csisnapshot.ErrTimeout) || !apierrors.IsForbidden(err) {
					t.Errorf("%v, want a timeout that tells of the refusal", err)
				}
				w.Close()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
