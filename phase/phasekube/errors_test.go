package phasekube_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	kubetesting "k8s.io/client-go/testing"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/phase"
	"github.com/sheetanchor/sheetanchor/phase/phasekube"
)

// errTransient stands for an error of phase.IsTransient, which is no category.
var errTransient = errors.New("transient")

func is(err, want error) bool {
	if want == errTransient { //nolint:errorlint // it is a marker
		return phase.IsTransient(err) && !errors.Is(err, phase.ErrUnknownOutcome)
	}
	return errors.Is(err, want) && !phase.IsTransient(err)
}

var someChange = phase.Change[myPhase]{From: phase.New, To: phase.InProgress, Event: phase.EventStart, Owner: "replica-1"}

// newFake is client-go's bare fake with one ConfigMap.
func newFake(t *testing.T) *fake.FakeDynamicClient {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewSimpleDynamicClient(scheme, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: "run-1"}})
}

// P5: every answer of the server, and every way to get none, has its category: for a read and for a write.
func TestErrorCategories(t *testing.T) {
	t.Parallel()
	cm := schema.GroupResource{Resource: "configmaps"}
	terminating := apierrors.NewForbidden(cm, "run-1", errors.New("being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	noResource := apierrors.NewGenericServerResponse(http.StatusNotFound, "patch", cm, "run-1", "404 page not found", 0, true)
	tests := map[string]struct {
		reason      string
		err         error
		read, write error
	}{
		"conflict":              {"a stale version", apierrors.NewConflict(cm, "run-1", errors.New("stale")), phase.ErrConflict, phase.ErrConflict},
		"invalid":               {"phase-4: the enum lacks the phase", apierrors.NewInvalid(schema.GroupKind{Kind: "Backup"}, "run-1", nil), phase.ErrInvalid, phase.ErrInvalid},
		"bad request":           {"strict validation found an unknown field", apierrors.NewBadRequest("strict decoding error"), phase.ErrInvalid, phase.ErrInvalid},
		"not found":             {"it names the object", apierrors.NewNotFound(cm, "run-1"), phase.ErrNotFound, phase.ErrNotFound},
		"not found, no name":    {"a missing API", apierrors.NewNotFound(cm, ""), phase.ErrMissingAPI, phase.ErrMissingAPI},
		"not found, plain text": {"a missing API, of which client-go makes a status with a name", noResource, phase.ErrMissingAPI, phase.ErrMissingAPI},
		"no such verb":          {"the resource does not have it", apierrors.NewMethodNotSupported(cm, "get"), phase.ErrMissingAPI, phase.ErrMissingAPI},
		"forbidden":             {"RBAC", apierrors.NewForbidden(cm, "run-1", errors.New("rbac")), phase.ErrForbidden, phase.ErrForbidden},
		"namespace terminating": {"a type of its own", terminating, phase.ErrNamespaceTerminating, phase.ErrNamespaceTerminating},
		"quota":                 {"a type of its own", apierrors.NewForbidden(cm, "run-1", errors.New("exceeded quota: q")), phase.ErrQuotaExceeded, phase.ErrQuotaExceeded},
		"unauthorized":          {"a token that is being renewed", apierrors.NewUnauthorized("expired"), errTransient, errTransient},
		"too many requests":     {"nothing was done", apierrors.NewTooManyRequests("slow down", 7), errTransient, errTransient},
		"internal error":        {"a store that wrote and then failed", apierrors.NewInternalError(errors.New("etcd")), errTransient, phase.ErrUnknownOutcome},
		"unavailable":           {"a proxy may have passed it on", apierrors.NewServiceUnavailable("down"), errTransient, phase.ErrUnknownOutcome},
		"server timeout":        {"it says so itself", apierrors.NewServerTimeout(cm, "patch", 1), errTransient, phase.ErrUnknownOutcome},
		"timeout":               {"it may have been done", apierrors.NewTimeoutError("slow", 1), errTransient, phase.ErrUnknownOutcome},
		"gone":                  {"an answer like no other is final", apierrors.NewResourceExpired("gone"), nil, nil},
		"reset":                 {"the answer got lost", &url.Error{Op: "Patch", Err: errors.New("connection reset")}, errTransient, phase.ErrUnknownOutcome},
		"dial":                  {"nothing was sent", &url.Error{Op: "Patch", Err: &net.OpError{Op: "dial", Err: errors.New("refused")}}, errTransient, errTransient},
		"deadline":              {"the try took too long", context.DeadlineExceeded, errTransient, phase.ErrUnknownOutcome},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := newFake(t)
			client.PrependReactor("*", "*", func(kubetesting.Action) (bool, runtime.Object, error) { return true, nil, tc.err })
			object := phasekube.NewConfigMap[myPhase](client, "app", "run-1")
			_, err := object.Get(t.Context())
			if !is(err, orItself(tc.read, tc.err)) || !errors.Is(err, tc.err) || !strings.Contains(err.Error(), "app/run-1") {
				t.Errorf("Get = %v, want %v that wraps the server's and names the object: %s", err, tc.read, tc.reason)
			}
			_, err = object.Update(t.Context(), phase.State[myPhase]{Version: "7"}, someChange)
			if !is(err, orItself(tc.write, tc.err)) || !errors.Is(err, tc.err) || !strings.Contains(err.Error(), "app/run-1") {
				t.Errorf("Update = %v, want %v that wraps the server's and names the object: %s", err, tc.write, tc.reason)
			}
		})
	}
}

func orItself(want, err error) error {
	if want == nil {
		return err
	}
	return want
}

// P5: the same through the real client, on a server: what the applier makes of it.
func TestApplyOverServerTrouble(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		fault  backuptest.Fault
		want   error // nil: success
	}{
		"503 a few times": {
			reason: "phase-2", fault: backuptest.Fault{Verb: "patch", Code: http.StatusServiceUnavailable, Nth: 1, Times: 3},
		},
		"too many requests": {
			reason: "phase-2", fault: backuptest.Fault{Code: http.StatusTooManyRequests, RetryAfter: 2 * time.Second, Nth: 1, Times: 4},
		},
		"refused": {
			reason: "phase-2: a server that restarts", fault: backuptest.Fault{Action: backuptest.FaultRefuse, Nth: 1, Times: 5},
		},
		"unauthorized": {
			reason: "a token that is being renewed", fault: backuptest.Fault{Code: http.StatusUnauthorized, Nth: 1, Times: 3},
		},
		"answer of the patch lost": {
			reason: "P5: our own write found there is success", fault: backuptest.Fault{Verb: "patch", Action: backuptest.FaultLostAnswer, Nth: 1},
		},
		"answer of the patch hangs": {
			reason: "P5: one try is bounded", fault: backuptest.Fault{Verb: "patch", Action: backuptest.FaultHangAnswer, Nth: 1},
		},
		"the patch hangs": {
			reason: "P5: one try is bounded", fault: backuptest.Fault{Verb: "patch", Action: backuptest.FaultHang, Nth: 1},
		},
		"forbidden for a second": {
			reason: "P5: a restarted server", fault: backuptest.Fault{Code: http.StatusForbidden, Nth: 1, Times: 1},
		},
		"forbidden": {
			reason: "P5: repeated it is believed", fault: backuptest.Fault{Verb: "patch", Code: http.StatusForbidden}, want: phase.ErrForbidden,
		},
		"422": {
			reason: "phase-4", fault: backuptest.Fault{Verb: "patch", Code: http.StatusUnprocessableEntity}, want: phase.ErrInvalid,
		},
		"down for ever": {
			reason: "phase-3: bounded", fault: backuptest.Fault{Verb: "patch", Action: backuptest.FaultRefuse}, want: phase.ErrGaveUp,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cluster, client := newCluster(t)
				var seen []phase.Change[myPhase]
				a, err := phase.NewApplier(phase.Backup[myPhase](), phasekube.NewConfigMap[myPhase](client, "app", "run-1"),
					phase.ApplierOptions[myPhase]{Owner: "replica-1", Hooks: phase.Hooks[myPhase]{
						Transition: func(_ context.Context, c phase.Change[myPhase]) { seen = append(seen, c) },
					}})
				if err != nil {
					t.Fatal(err)
				}
				remove := cluster.Fault(tc.fault)
				state, err := a.Load(t.Context())
				if err != nil {
					t.Fatalf("Load: %v", err)
				}
				state, err = a.Apply(t.Context(), state, phase.EventStart, "")
				if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
					t.Fatalf("Apply = %v, want %v: %s", err, tc.want, tc.reason)
				}
				remove()
				got, loadErr := a.Load(t.Context())
				if loadErr != nil {
					t.Fatal(loadErr)
				}
				if (err == nil) != (got.Phase == phase.InProgress) || got.Phase != state.Phase || (err == nil) != (len(seen) == 1) {
					t.Errorf("the object is in %q, Apply said %q, %v, observed %d times", got.Phase, state.Phase, err, len(seen))
				}
			})
		})
	}
}

// P5: a missing subresource is answered in the words of a missing object, and a status that is dropped in those of success.
func TestWrongSubresourceIsFound(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		gvr    schema.GroupVersionResource
		status bool
		want   error
		hint   string
	}{
		"status is a subresource and is not used": {
			reason: "P8: the server drops the status silently", gvr: runs, want: phase.ErrInvalid, hint: "StatusSubresource",
		},
		"status is no subresource and is used": {
			reason: "P5: the object is there", gvr: backups, status: true, want: phase.ErrMissingAPI, hint: "no status subresource",
		},
		"no such resource": {
			reason: "P5: a NotFound that names no object", gvr: schema.GroupVersionResource{Group: "none.dev", Version: "v1", Resource: "things"},
			want: phase.ErrMissingAPI, hint: "things app/run-1",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				_, client := newCluster(t)
				object := phasekube.New[myPhase](client, tc.gvr, "app", "run-1", phasekube.Options{StatusSubresource: tc.status})
				_, err := object.Update(t.Context(), phase.State[myPhase]{Phase: phase.New, Version: version(t, client, tc.gvr)}, someChange)
				if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.hint) {
					t.Errorf("Update = %v, want %v with %q: %s", err, tc.want, tc.hint, tc.reason)
				}
			})
		})
	}
}

func version(t *testing.T, client dynamic.Interface, gvr schema.GroupVersionResource) string {
	t.Helper()
	obj, err := client.Resource(gvr).Namespace("app").Get(t.Context(), "run-1", metav1.GetOptions{})
	if err != nil {
		return "1"
	}
	return obj.GetResourceVersion()
}

// P5: phase-3: an object that was deleted ends a write two seconds later, not never.
func TestDeletedObject(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, client := newCluster(t)
		a := newApplier(t, phasekube.NewConfigMap[myPhase](client, "app", "run-1"))
		state, err := a.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := client.Resource(configMaps).Namespace("app").Delete(t.Context(), "run-1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := a.Apply(t.Context(), state, phase.EventStart, ""); !errors.Is(err, phase.ErrNotFound) {
			t.Errorf("Apply = %v, want ErrNotFound", err)
		}
		if took := time.Since(began); took < 2*time.Second || took > 3*time.Second {
			t.Errorf("Apply took %v, want two seconds", took)
		}
	})
}

// B4: the bare fake of client-go has no versions; the phase alone is compared then.
func TestOnClientGosFake(t *testing.T) {
	t.Parallel()
	client := newFake(t)
	a := newApplier(t, phasekube.NewConfigMap[myPhase](client, "app", "run-1"))
	state, err := a.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first := state
	if state, err = a.Apply(t.Context(), state, phase.EventStart, ""); err != nil || state.Phase != phase.InProgress {
		t.Fatalf("Apply = %+v, %v", state, err)
	}
	if _, err := a.Apply(t.Context(), first, phase.EventCancel, ""); !errors.Is(err, phase.ErrConflict) {
		t.Errorf("Apply from the first state = %v, want ErrConflict", err)
	}
}
