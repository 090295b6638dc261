package backuptest_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

const (
	firstCall = `Failed to create snapshot: failed to take snapshot of the volume vol-app-data: "rpc error: code = `
	laterCall = `Failed to check and update snapshot content: failed to take snapshot of the volume vol-app-data: "rpc error: code = `
)

func driverErrors(errs ...backuptest.DriverError) map[string]backuptest.Script {
	return map[string]backuptest.Script{"data": {Errors: errs}}
}

// B2: errors of the driver stand on the content word for word as the real sidecar writes them, are copied to the snapshot, are
// tried again after 1, 2, 4 s whatever their code, and go when the snapshot is ready.
func TestControllerDriverErrorsThenSuccess(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"InvalidArgument", "Internal"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, claimAndClass()...)
				l.run(backuptest.ControllerOptions{Scripts: driverErrors(backuptest.DriverError{Code: code, Text: "no space", Times: 3})})
				vs := l.take("snap", "data", backuptest.DefaultSnapshotClass)
				content := "snapcontent-" + string(vs.GetUID())

				l.wait(500 * time.Millisecond)
				for _, object := range []*unstructured.Unstructured{l.get(contentsGVR, "", content), l.get(snapshotsGVR, "app", "snap")} {
					if want := firstCall + code + ` desc = no space"`; errorText(object) != want {
						t.Errorf("first error on %s = %s\nwant %s", object.GetKind(), errorText(object), want)
					}
				}
				l.wait(time.Second)
				second := l.get(contentsGVR, "", content)
				for _, object := range []*unstructured.Unstructured{second, l.get(snapshotsGVR, "app", "snap")} {
					if want := laterCall + code + ` desc = no space"`; errorText(object) != want {
						t.Errorf("later error on %s = %s\nwant %s", object.GetKind(), errorText(object), want)
					}
				}
				l.wait(2 * time.Second)
				if diff := cmp.Diff(second.Object["status"], l.get(contentsGVR, "", content).Object["status"]); diff != "" {
					t.Errorf("a third call with the same text changed the status (-second +third):\n%s", diff)
				}
				l.wait(time.Minute)
				if ready := l.when("vs snap", "ready"); ready != 7*time.Second {
					t.Errorf("ready after %v, want 7s: calls at 0, 1, 3 and 7", ready)
				}
				if text := errorText(l.get(snapshotsGVR, "app", "snap")); text != "" {
					t.Errorf("a ready snapshot has the error %q", text)
				}
				want := []string{"Warning SnapshotContentCheckandUpdateFailed", "Warning SnapshotCreationFailed"}
				if diff := cmp.Diff(want, l.reasons("default")); diff != "" {
					t.Errorf("events of the content (-want +got):\n%s", diff)
				}
				if reasons := l.reasons("app"); slices.ContainsFunc(reasons, func(r string) bool { return strings.HasPrefix(r, "Warning") }) {
					t.Errorf("events of the snapshot are %v, want no warning for a driver's error", reasons)
				}
			})
		})
	}
}

// B2: an old error stays beside the handle until the snapshot is ready.
func TestControllerStaleErrorBesideHandle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, claimAndClass()...)
		script := backuptest.Script{Errors: []backuptest.DriverError{{Text: "busy", Times: 1}}, ReadyAfter: 6 * time.Second}
		l.run(backuptest.ControllerOptions{Scripts: map[string]backuptest.Script{"app/data": script}})
		l.take("snap", "data", backuptest.DefaultSnapshotClass)
		l.wait(time.Minute)
		for object, words := range map[string][]string{"vsc snap": {"handle", "error", "unready"}, "vs snap": {"cut", "error", "unready"}} {
			if at := l.when(object, words...); at != time.Second {
				t.Errorf("%s was %v after %v, want 1s", object, words, at)
			}
			last := l.path(object)[len(l.path(object))-1]
			if strings.Contains(last, "error") || !strings.Contains(last, "ready") {
				t.Errorf("%s ended as %q, want ready without error", object, last)
			}
		}
	})
}

// B2: no error is final: the calls go on for ever, at most five minutes apart.
func TestControllerRetriesWithoutEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, claimAndClass()...)
		l.run(backuptest.ControllerOptions{Scripts: driverErrors(backuptest.DriverError{Code: "InvalidArgument", Text: "never"})})
		l.take("snap", "data", backuptest.DefaultSnapshotClass)
		l.wait(time.Hour)
		before := l.count("vsc snap")
		l.wait(time.Hour)
		// Each call sets and removes the annotation.
		if polls := (l.count("vsc snap") - before) / 2; polls != 12 {
			t.Errorf("%d calls in the second hour, want 12", polls)
		}
		if held := l.driver.Snapshots(); len(held) != 0 {
			t.Errorf("the storage holds %+v, want nothing", held)
		}
	})
}

// B2: a call that takes longer than the sidecar's timeout is an error too, after which the annotation stays, and the cut that goes on
// without it is not lost.
func TestControllerCallTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, claimAndClass()...)
		l.run(backuptest.ControllerOptions{Scripts: map[string]backuptest.Script{"data": {CutAfter: 90 * time.Second}}})
		vs := l.take("snap", "data", backuptest.DefaultSnapshotClass)
		l.wait(60*time.Second + 500*time.Millisecond)
		content := l.get(contentsGVR, "", "snapcontent-"+string(vs.GetUID()))
		if want := firstCall + `DeadlineExceeded desc = context deadline exceeded"`; errorText(content) != want {
			t.Errorf("error = %s\nwant %s", errorText(content), want)
		}
		if got := describeContent(content); !strings.Contains(got, "being-created:yes") {
			t.Errorf("content is %q, want the annotation to stay while nobody knows", got)
		}
		l.wait(time.Minute)
		if ready := l.when("vs snap", "ready"); ready != 90*time.Second {
			t.Errorf("ready after %v, want 90s", ready)
		}
		if held := l.driver.Snapshots(); len(held) != 1 {
			t.Errorf("the storage holds %+v, want one", held)
		}
	})
}

// B2: what the snapshot-controller finds wrong by itself stands on the snapshot alone, which has no content then.
func TestControllerSnapshotErrors(t *testing.T) {
	t.Parallel()
	class := backuptest.SnapshotClass{}
	other := backuptest.Claim{Namespace: "app", Name: "other"}
	tests := map[string]struct {
		reason   string
		builders []backuptest.Builder
		class    string
		text     string
		event    string
		ready    any // nil: not set
	}{
		"claim not bound": {
			reason:   "a claim without volume cannot be snapshotted yet",
			builders: []backuptest.Builder{backuptest.Claim{Namespace: "app", Name: "data", Unbound: true}, class},
			class:    "csi-snapclass",
			text: `Failed to create snapshot content with error failed to get input parameters to create snapshot snap: ` +
				`"the PVC data is not yet bound to a PV, will not attempt to take a snapshot"`,
			event: "Warning SnapshotContentCreationFailed", ready: false,
		},
		"no such claim": {
			reason:   "the claim may come yet",
			builders: []backuptest.Builder{other, class},
			class:    "csi-snapclass",
			text:     `Failed to create snapshot content with error snapshot controller failed to update snap on API server: cannot get claim from snapshot`,
			event:    "Warning SnapshotContentCreationFailed", ready: false,
		},
		"not csi": {
			reason:   "the volume is of no CSI driver",
			builders: []backuptest.Builder{backuptest.Claim{Namespace: "app", Name: "data", NFS: true, VolumeName: "nfs-1"}, class},
			class:    "csi-snapclass",
			text:     `Failed to create snapshot content with error cannot find CSI PersistentVolumeSource for volume nfs-1`,
			event:    "Warning SnapshotContentCreationFailed", ready: false,
		},
		"no such class": {
			reason:   "the class is missing",
			builders: claimAndClass(),
			class:    "gold",
			text:     `Failed to get snapshot class with error volumesnapshotclass.snapshot.storage.k8s.io "gold" not found`,
			event:    "Warning GetSnapshotClassFailed",
		},
		"no default class": {
			reason:   "no class is named and none is default",
			builders: claimAndClass(),
			text:     `Failed to set default snapshot class with error cannot find default snapshot class`,
			event:    "Warning SetDefaultSnapshotClassFailed",
		},
		"two default classes": {
			reason:   "two are default",
			builders: append(claimAndClass(), backuptest.SnapshotClass{Name: "a", Default: true}, backuptest.SnapshotClass{Name: "b", Default: true}),
			text:     `Failed to set default snapshot class with error 2 default snapshot classes were found`,
			event:    "Warning SetDefaultSnapshotClassFailed",
		},
		"default class and no claim": {
			reason:   "the driver of a missing claim is not known",
			builders: []backuptest.Builder{other, backuptest.SnapshotClass{Default: true}},
			text: `Failed to set default snapshot class with error failed to retrieve PVC data from the lister: ` +
				`"persistentvolumeclaim \"data\" not found"`,
			event: "Warning SetDefaultSnapshotClassFailed",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, tc.builders...)
				l.run(backuptest.ControllerOptions{})
				l.take("snap", "data", tc.class)
				l.wait(10 * time.Minute)
				vs := l.get(snapshotsGVR, "app", "snap")
				if got := errorText(vs); got != tc.text {
					t.Errorf("%s: error = %s\nwant %s", tc.reason, got, tc.text)
				}
				status, _, _ := unstructured.NestedMap(vs.Object, "status")
				if got := status["readyToUse"]; got != tc.ready {
					t.Errorf("%s: readyToUse = %v, want %v", tc.reason, got, tc.ready)
				}
				if contents, err := l.client.Resource(contentsGVR).List(t.Context(), metav1.ListOptions{}); err != nil || len(contents.Items) != 0 {
					t.Errorf("%s: contents %v, %v; want none", tc.reason, contents, err)
				}
				if got := l.reasons("app"); !slices.Equal(got, []string{tc.event}) {
					t.Errorf("%s: events %v, want %s once", tc.reason, got, tc.event)
				}
			})
		})
	}
}

// B2: a claim that gets bound is noticed at the controller's own retry.
func TestControllerClaimGetsBound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		claim := backuptest.Claim{Namespace: "app", Name: "data"}
		unbound := claim
		unbound.Unbound = true
		l := newLab(t, unbound, backuptest.SnapshotClass{})
		l.run(backuptest.ControllerOptions{})
		l.take("snap", "data", backuptest.DefaultSnapshotClass)
		l.wait(10 * time.Second)
		bound := l.get(claimsGVR, "app", "data")
		bound.Object["status"] = map[string]any{"phase": "Bound"}
		if err := unstructured.SetNestedField(bound.Object, claim.PV().Name, "spec", "volumeName"); err != nil {
			t.Fatal(err)
		}
		if err := l.cluster.Add(claim.PV()); err != nil {
			t.Fatal(err)
		}
		updated, err := l.client.Resource(claimsGVR).Namespace("app").Update(t.Context(), bound, metav1.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		updated.Object["status"] = map[string]any{"phase": "Bound"}
		if _, err := l.client.Resource(claimsGVR).Namespace("app").UpdateStatus(t.Context(), updated, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		l.wait(time.Minute)
		if ready := l.when("vs snap", "ready"); ready != 15*time.Second {
			t.Errorf("ready after %v, want 15s: looked at after 1, 3, 7 and 15", ready)
		}
		if text := errorText(l.get(snapshotsGVR, "app", "snap")); text != "" {
			t.Errorf("the old error %q stayed", text)
		}
	})
}

// B2: a driver or sidecar that does not answer for a class shows no error at all, and its content cannot be deleted.
func TestControllerSilence(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason  string
		claim   backuptest.Claim
		class   backuptest.SnapshotClass
		names   []string
		scripts map[string]backuptest.Script
	}{
		"class of a driver nobody serves": {reason: "no sidecar runs", class: backuptest.SnapshotClass{Driver: "other.example"}},
		"class of another served driver": {
			reason: "the sidecar of that driver does not know the volume",
			class:  backuptest.SnapshotClass{Driver: "other.example"}, names: []string{backuptest.DefaultDriver, "other.example"},
		},
		"silent": {reason: "the script says so", scripts: map[string]backuptest.Script{"app/data": {Silent: true}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tc.claim.Namespace, tc.claim.Name = "app", "data"
				l := newLab(t, tc.claim, tc.class)
				l.driver = backuptest.NewDriver(backuptest.DriverOptions{Names: tc.names})
				l.run(backuptest.ControllerOptions{Scripts: tc.scripts})
				l.take("snap", "data", backuptest.DefaultSnapshotClass)
				l.wait(time.Hour)
				if got, want := l.path("vsc snap"), []string{"no-status", finContent + " no-status"}; !slices.Equal(got, want) {
					t.Errorf("%s: content went through %q, want %q", tc.reason, got, want)
				}
				vs := l.path("vs snap")
				if got, want := vs[len(vs)-1], "bound "+finSource+" "+finBound+" unready"; got != want {
					t.Errorf("%s: snapshot ended as %q, want %q", tc.reason, got, want)
				}
				l.delete(snapshotsGVR, "app", "snap")
				l.wait(time.Hour)
				content := l.path("vsc snap")
				if got, want := content[len(content)-1], "being-deleted:yes deleting "+finContent+" no-status"; got != want {
					t.Errorf("%s: deleted content ended as %q, want %q", tc.reason, got, want)
				}
			})
		})
	}
}

// B2: a snapshot without class gets the default class of the volume's driver.
func TestControllerDefaultClass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, backuptest.Claim{Namespace: "app", Name: "data"},
			backuptest.SnapshotClass{Name: "other", Driver: "other.example", Default: true},
			backuptest.SnapshotClass{Name: "plain"}, backuptest.SnapshotClass{Name: "gold", Default: true})
		l.run(backuptest.ControllerOptions{})
		l.take("snap", "data", "")
		l.wait(time.Second)
		class, _, _ := unstructured.NestedString(l.get(snapshotsGVR, "app", "snap").Object, "spec", "volumeSnapshotClassName")
		if ready := l.when("vs snap", "ready"); class != "gold" || ready != 0 {
			t.Errorf("class %q, ready after %v; want gold at once", class, ready)
		}
	})
}

// B2: a script for "NAMESPACE/NAME" goes before one for "NAME", and one that is replaced holds from the next call on.
func TestControllerScripts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, append(claimAndClass(), backuptest.Claim{Namespace: "app", Name: "logs"})...)
		controller := backuptest.NewSnapshotController(l.client, l.driver, backuptest.ControllerOptions{Scripts: map[string]backuptest.Script{
			"data": {Silent: true}, "app/data": {CutAfter: time.Second}, "logs": {Errors: []backuptest.DriverError{{Text: "never"}}},
		}})
		l.runController(controller)
		l.take("data", "data", backuptest.DefaultSnapshotClass)
		l.take("logs", "logs", backuptest.DefaultSnapshotClass)
		l.wait(10 * time.Second)
		controller.SetScript("app/logs", backuptest.Script{})
		l.wait(10 * time.Second)
		if cut, ready := l.when("vsc data", "handle"), l.when("vs logs", "ready"); cut != time.Second || ready != 15*time.Second {
			t.Errorf("data cut after %v, logs ready after %v; want 1s and 15s", cut, ready)
		}
	})
}
