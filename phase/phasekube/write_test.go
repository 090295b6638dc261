package phasekube_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/phase"
	"github.com/sheetanchor/sheetanchor/phase/phasekube"
)

type roundTrip func(req *http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// P5: P8: a write is one merge patch, strictly validated, with the version and never the UID, and of our fields alone.
func TestFormOfAWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster, _ := newCluster(t)
		config := cluster.Config()
		var requests []*http.Request
		var bodies []map[string]any
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(req *http.Request) (*http.Response, error) {
				if req.Method != http.MethodGet {
					data, err := io.ReadAll(req.Body)
					if err != nil {
						return nil, err
					}
					var body map[string]any
					if err := json.Unmarshal(data, &body); err != nil {
						return nil, err
					}
					req.Body = io.NopCloser(strings.NewReader(string(data)))
					requests, bodies = append(requests, req), append(bodies, body)
				}
				return next.RoundTrip(req)
			})
		})
		opts := phasekube.Options{StatusSubresource: true, FieldManager: "my-operator"}
		a := newApplier(t, phasekube.New[myPhase](dynamic.NewForConfigOrDie(config), runs, "app", "run-1", opts))
		state, err := a.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		version := state.Version
		if _, err = a.Apply(t.Context(), state, phase.EventStart, ""); err != nil {
			t.Fatal(err)
		}
		if len(requests) != 1 {
			t.Fatalf("%d writes, want one", len(requests))
		}
		req := requests[0]
		query := req.URL.Query()
		if got := req.Method + " " + req.URL.Path + " " + req.Header.Get("Content-Type") + " " + query.Get("fieldValidation") + " " + query.Get("fieldManager"); got !=
			"PATCH /apis/example.dev/v1/namespaces/app/runs/run-1/status application/merge-patch+json Strict my-operator" {
			t.Errorf("the write is %s", got)
		}
		want := map[string]any{
			"metadata": map[string]any{"resourceVersion": version},
			"status":   map[string]any{"phase": "InProgress", "failureReason": nil, "startTimestamp": "2000-01-01T00:00:00Z"},
		}
		if diff := cmp.Diff(want, bodies[0]); diff != "" {
			t.Errorf("patch (-want +got):\n%s", diff)
		}
	})
}

// P8: what the server warns of reaches the caller: the function, or the log of the context.
func TestWarnings(t *testing.T) {
	t.Parallel()
	cluster, _ := newCluster(t)
	var told, logged []string
	ctx := logr.NewContext(t.Context(), funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{}))
	for _, warnings := range []phasekube.Warnings{nil, func(_ context.Context, text string) { told = append(told, text) }} {
		config := cluster.Config()
		config.WarningHandlerWithContext = warnings
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(req *http.Request) (*http.Response, error) {
				res, err := next.RoundTrip(req)
				if err == nil {
					res.Header.Add("Warning", `299 - "v1 is deprecated"`)
					res.Header.Add("Warning", `199 - "not for us"`)
				}
				return res, err
			})
		})
		object := phasekube.NewConfigMap[myPhase](dynamic.NewForConfigOrDie(config), "app", "run-1")
		if _, err := object.Get(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"v1 is deprecated"}, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	if len(logged) != 1 || !strings.Contains(logged[0], "v1 is deprecated") {
		t.Errorf("logged %q, want the warning", logged)
	}
}

// P5: P8: a field that the resource does not have is refused by strict validation; that is Invalid, and final at once.
func TestUnknownFieldIsFinal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster, client := newCluster(t)
		cluster.Fault(backuptest.Fault{
			Verb: "patch", Code: http.StatusBadRequest, Message: `strict decoding error: unknown field "status.failureReason"`,
		})
		a := newApplier(t, phasekube.New[myPhase](client, backups, "app", "run-1", phasekube.Options{}))
		state, err := a.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = a.Apply(t.Context(), state, phase.EventStart, "")
		if !errors.Is(err, phase.ErrInvalid) || !strings.Contains(err.Error(), `"status.failureReason"`) {
			t.Errorf("Apply = %v, want ErrInvalid with the server's words", err)
		}
		if n := cluster.Requests()["patch backups"]; n != 1 || time.Since(began) > 0 {
			t.Errorf("%d tries in %v, want one", n, time.Since(began))
		}
	})
}

// P5: the typed refusals of a namespace and of a quota end an Apply at once, and nothing was written.
func TestTypedRefusals(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		body string
		want error
	}{
		"namespace terminating": {
			`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"being terminated",` +
				`"details":{"name":"run-1","kind":"configmaps","causes":[{"reason":"NamespaceTerminating","field":"metadata.namespace"}]}}`,
			phase.ErrNamespaceTerminating,
		},
		"quota": {
			`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,` +
				`"message":"configmaps \"run-1\" is forbidden: exceeded quota: q, requested: count/configmaps=1, used: 1, limited: 1"}`,
			phase.ErrQuotaExceeded,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cluster, _ := newCluster(t)
				config := cluster.Config()
				tries := 0
				config.Wrap(func(next http.RoundTripper) http.RoundTripper {
					return roundTrip(func(req *http.Request) (*http.Response, error) {
						if req.Method != http.MethodPatch {
							return next.RoundTrip(req)
						}
						tries++
						return &http.Response{
							StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Request: req,
							Body: io.NopCloser(strings.NewReader(tc.body)),
						}, nil
					})
				})
				a := newApplier(t, phasekube.NewConfigMap[myPhase](dynamic.NewForConfigOrDie(config), "app", "run-1"))
				state, err := a.Load(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if _, err = a.Apply(t.Context(), state, phase.EventStart, ""); !errors.Is(err, tc.want) || errors.Is(err, phase.ErrForbidden) || tries != 1 {
					t.Errorf("Apply = %v after %d tries, want %v at once", err, tries, tc.want)
				}
			})
		})
	}
}

// P5: phase-9, phase-10: of competing claims one wins; the others are told the phase and the owner that they lost to.
func TestConflictNamesTheWinner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, client := newCluster(t)
		object := phasekube.NewConfigMap[myPhase](client, "app", "run-1")
		a, b := newApplier(t, object), newOwned(t, object, "replica-2")
		state, err := a.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err = a.Apply(t.Context(), state, phase.EventStart, ""); err != nil {
			t.Fatal(err)
		}
		_, err = b.Apply(t.Context(), state, phase.EventStart, "")
		conflict, ok := errors.AsType[*phase.ConflictError](err)
		if !ok || conflict.Found != phase.InProgress || conflict.Owner != "replica-1" || conflict.Expected != phase.New || conflict.Replaced {
			t.Errorf("the second claim = %+v (%v), want a conflict with replica-1 in InProgress", conflict, err)
		}
	})
}

func newOwned(t *testing.T, object phase.Object[myPhase], owner string) *phase.Applier[myPhase] {
	t.Helper()
	a, err := phase.NewApplier(phase.Backup[myPhase](), object, phase.ApplierOptions[myPhase]{Owner: owner})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// P5: cluster-wide resources, with and without a status subresource.
func TestClusterWide(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]bool{"with subresource": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cluster := backuptest.New(t, backuptest.Options{
					Resources: []backuptest.Resource{{Group: "example.dev", Version: "v1", Kind: "Site", Plural: "sites", Status: status}},
					Objects: []runtime.Object{&unstructured.Unstructured{Object: map[string]any{
						"apiVersion": "example.dev/v1", "kind": "Site", "metadata": map[string]any{"name": "berlin"},
					}}},
				})
				sites := schema.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "sites"}
				client := dynamic.NewForConfigOrDie(cluster.Config())
				a := newApplier(t, phasekube.New[myPhase](client, sites, "", "berlin", phasekube.Options{StatusSubresource: status}))
				state, err := a.Load(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if _, err = a.Apply(t.Context(), state, phase.EventStart, ""); err != nil {
					t.Fatal(err)
				}
				obj, err := client.Resource(sites).Get(t.Context(), "berlin", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if got, _, err := unstructured.NestedString(obj.Object, "status", "phase"); err != nil || got != phase.InProgress {
					t.Errorf("status.phase = %q, %v, want InProgress", got, err)
				}
			})
		})
	}
}
