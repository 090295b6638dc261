package e2e_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/sheetanchor/sheetanchor/phase"
	"github.com/sheetanchor/sheetanchor/phase/phasekube"
)

const phaseGroup = "phase.e2e.sheetanchor.io"

// phaseCRD is a resource that suits phasekube; cases change it.
type phaseCRD struct {
	spec    map[string]any
	version map[string]any
	status  map[string]any // the schema of the status
}

func props(of map[string]any) map[string]any {
	return of["properties"].(map[string]any)
}

func newPhaseCRD(plural string) phaseCRD {
	text := func() map[string]any { return map[string]any{"type": "string"} }
	when := func() map[string]any { return map[string]any{"type": "string", "format": "date-time"} }
	var phases []any
	for _, p := range phase.Backup[string]().Phases() {
		phases = append(phases, p)
	}
	status := map[string]any{"type": "object", "properties": map[string]any{
		"phase": map[string]any{"type": "string", "enum": phases}, "reason": text(), "message": text(), "owner": text(),
		"started": when(), "completed": when(), "entered": when(),
		"conditions": map[string]any{"type": "array", "items": map[string]any{"type": "object", "properties": map[string]any{
			"type": text(), "status": text(), "reason": text(), "message": text(), "lastTransitionTime": when(),
			"observedGeneration": map[string]any{"type": "integer", "format": "int64"},
		}, "required": []any{"type", "status", "reason", "message", "lastTransitionTime"}}},
	}}
	version := map[string]any{
		"name": "v1", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
		"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
			"spec": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}, "status": status,
		}}},
	}
	return phaseCRD{version: version, status: status, spec: map[string]any{
		"group": phaseGroup, "scope": "Namespaced", "versions": []any{version},
		"names": map[string]any{"plural": plural, "singular": strings.TrimSuffix(plural, "s"), "kind": "K" + plural, "listKind": "K" + plural + "List"},
	}}
}

func phaseFields() phasekube.Fields {
	return phasekube.Fields{
		Phase: "status.phase", Reason: "status.reason", Message: "status.message", Owner: "status.owner", Started: "status.started",
		Completed: "status.completed", Entered: "status.entered", Conditions: "status.conditions",
	}
}

// install makes the definition. The server needs some seconds until it serves it: see await.
func (w *phaseWorld) install(t *testing.T, plural string, crd phaseCRD) {
	t.Helper()
	gvr := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + "." + phaseGroup}, "spec": crd.spec,
	}}
	if _, err := w.admin.Resource(gvr).Create(t.Context(), obj, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := w.admin.Resource(gvr).Delete(ctx, obj.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Errorf("delete the definition of %s: %v", plural, err)
		}
	})
}

// await waits until the server serves the definition and takes an object.
func (w *phaseWorld) await(t *testing.T, plural string, crd phaseCRD) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := w.create(ctx, plural, crd, "probe")
		if apierrors.IsNotFound(err) || apierrors.IsTooManyRequests(err) {
			return false, nil
		}
		return true, err
	})
	if err != nil {
		t.Fatalf("%s is not served: %v", plural, err)
	}
}

// create makes an object of the resource, in its first served version.
func (w *phaseWorld) create(ctx context.Context, plural string, crd phaseCRD, name string) (*unstructured.Unstructured, error) {
	version := crd.version["name"].(string)
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": phaseGroup + "/" + version, "kind": "K" + plural, "metadata": map[string]any{"name": name},
		"spec": map[string]any{"keep": "me"},
	}}
	gvr := schema.GroupVersionResource{Group: phaseGroup, Version: version, Resource: plural}
	if crd.spec["scope"] == "Cluster" {
		return w.admin.Resource(gvr).Create(ctx, obj, metav1.CreateOptions{})
	}
	return w.admin.Resource(gvr).Namespace(w.namespace).Create(ctx, obj, metav1.CreateOptions{})
}

// phaseCase is one definition: what the preflight says of it, and what then happens.
type phaseCase struct {
	plural string
	reason string
	crd    func(c phaseCRD)
	opts   func(o *phasekube.Options)
	want   []string // severity, problem and field of the findings
	// err is what a walk through the machine ends with; nil: it reaches the end.
	err error
	// after is the last phase that is reached before err.
	after string
	// lost is a field that is gone when the walk has ended.
	lost string
	// message is told with the failure.
	message string
	cluster bool // the object has no namespace
}

var phaseCases = []phaseCase{
	{plural: "goods", reason: "all is there"},
	{
		plural: "plains", reason: "no subresource", crd: func(c phaseCRD) { delete(c.version, "subresources") },
		opts: func(o *phasekube.Options) { o.StatusSubresource = false },
	},
	{
		plural: "lacks", reason: "phase-4: the enum lacks a phase", crd: func(c phaseCRD) {
			p := props(c.status)["phase"].(map[string]any)
			p["enum"] = slices.DeleteFunc(p["enum"].([]any), func(v any) bool { return v == phase.FinalizingPartiallyFailed })
		},
		want: []string{"fatal Phases Phase"}, err: phase.ErrInvalid, after: phase.WaitingForPluginOperationsPartiallyFailed,
	},
	{
		plural: "prunes", reason: "P8: strict validation tells of what would be pruned", crd: func(c phaseCRD) { delete(props(c.status), "owner") },
		want: []string{"fatal NoField Owner"}, err: phase.ErrInvalid,
	},
	{
		plural: "drops", reason: "the status is a subresource, and is not written through it",
		opts: func(o *phasekube.Options) { o.StatusSubresource = false },
		want: []string{
			"fatal Subresource Completed", "fatal Subresource Conditions", "fatal Subresource Entered", "fatal Subresource Message",
			"fatal Subresource Owner", "fatal Subresource Phase", "fatal Subresource Reason", "fatal Subresource Started",
		},
		err: phase.ErrInvalid,
	},
	{
		plural: "misses", reason: "the status is no subresource", crd: func(c phaseCRD) { delete(c.version, "subresources") },
		want: []string{"fatal Subresource "}, err: phase.ErrMissingAPI,
	},
	{
		plural: "silents", reason: "no conditions", crd: func(c phaseCRD) { delete(props(c.status), "conditions") },
		want: []string{"degraded NoField Conditions"}, err: phase.ErrInvalid,
	},
	{
		plural: "keeps", reason: "unknown fields are kept", crd: func(c phaseCRD) {
			c.status["x-kubernetes-preserve-unknown-fields"] = true
			delete(props(c.status), "owner")
			delete(props(c.status), "conditions")
		},
	},
	{
		plural: "storeds", reason: "the stored version lacks a field", crd: func(c phaseCRD) {
			stored := newPhaseCRD("storeds")
			stored.version["name"], c.version["storage"] = "v2", false
			delete(props(stored.status), "owner")
			c.spec["versions"] = append(c.spec["versions"].([]any), stored.version)
		},
		want: []string{"fatal OtherVersion Owner"}, lost: "owner",
	},
	{
		plural: "serveds", reason: "another version lacks a field: nothing is lost while nobody writes there", crd: func(c phaseCRD) {
			other := newPhaseCRD("serveds")
			other.version["name"], other.version["storage"] = "v2", false
			delete(props(other.status), "owner")
			c.spec["versions"] = append(c.spec["versions"].([]any), other.version)
		},
		want: []string{"degraded OtherVersion Owner"},
	},
	{
		plural: "needs", reason: "the first write lacks what the status requires", crd: func(c phaseCRD) { c.status["required"] = []any{"counted"} },
		want: []string{"degraded Required Phase"}, err: phase.ErrInvalid,
	},
	{
		plural: "numbers", reason: "a text is no number", crd: func(c phaseCRD) { props(c.status)["owner"] = map[string]any{"type": "integer"} },
		want: []string{"fatal Type Owner"}, err: phase.ErrInvalid,
	},
	{
		plural: "days", reason: "a time is no day", crd: func(c phaseCRD) {
			props(c.status)["started"] = map[string]any{"type": "string", "format": "date"}
		},
		want: []string{"fatal Type Started"}, err: phase.ErrInvalid,
	},
	{
		plural: "shorts", reason: "a long text is refused, a short one is not", crd: func(c phaseCRD) {
			props(c.status)["message"] = map[string]any{"type": "string", "maxLength": int64(60)}
		},
		want: []string{"degraded Restricted Message"}, message: strings.Repeat("long ", 20), err: phase.ErrInvalid, after: phase.InProgress,
	},
	{
		plural: "rules", reason: "only the server evaluates rules", crd: func(c phaseCRD) {
			c.status["x-kubernetes-validations"] = []any{map[string]any{"rule": "!has(self.phase) || !self.phase.startsWith('Waiting')"}}
		},
		want: []string{"unchecked NotChecked Phase"}, err: phase.ErrInvalid, after: phase.InProgress,
	},
	{
		plural: "wides", reason: "cluster-wide", crd: func(c phaseCRD) { c.spec["scope"] = "Cluster" }, cluster: true,
	},
	{
		plural: "scopes", reason: "cluster-wide, and the object has a namespace", crd: func(c phaseCRD) { c.spec["scope"] = "Cluster" },
		want: []string{"fatal Scope ", "fatal Unserved "}, err: phase.ErrMissingAPI,
	},
	{
		plural: "spaces", reason: "it is in namespaces, and the object has none", cluster: true,
		want: []string{"fatal Scope ", "fatal Unserved "}, err: phase.ErrMissingAPI,
	},
	{
		plural: "olds", reason: "the version is not served", crd: func(c phaseCRD) { c.version["name"] = "v3" },
		want: []string{"fatal Unserved "}, err: phase.ErrMissingAPI,
	},
	{
		plural: "maps", reason: "a map takes any name", crd: func(c phaseCRD) {
			delete(c.status, "properties")
			c.status["additionalProperties"] = map[string]any{"type": "string"}
		},
		opts: func(o *phasekube.Options) { o.Fields.Conditions = "" },
	},
	{
		plural: "embeds", reason: "an embedded resource has metadata", crd: func(c phaseCRD) {
			c.status["x-kubernetes-embedded-resource"] = true
			props(c.status)["apiVersion"], props(c.status)["kind"] = map[string]any{"type": "string", "default": "v1"}, map[string]any{"type": "string", "default": "X"}
			delete(props(c.status), "owner")
		},
		opts: func(o *phasekube.Options) { o.Fields.Owner = "status.metadata.annotations.owner" },
	},
}

// P5: P8: phase-4: what the preflight says of a definition, and what then happens on it.
func (w *phaseWorld) testDefinitions(t *testing.T) {
	installed := map[string]phaseCRD{}
	for _, tc := range phaseCases {
		crd := newPhaseCRD(tc.plural)
		if tc.crd != nil {
			tc.crd(crd)
		}
		w.install(t, tc.plural, crd)
		installed[tc.plural] = crd
	}
	for _, tc := range phaseCases {
		t.Run(tc.plural, func(t *testing.T) {
			w.await(t, tc.plural, installed[tc.plural])
			opts := phasekube.Options{StatusSubresource: true, Fields: phaseFields()}
			if tc.opts != nil {
				tc.opts(&opts)
			}
			namespace := w.namespace
			if tc.cluster {
				namespace = ""
			}
			gvr := schema.GroupVersionResource{Group: phaseGroup, Version: "v1", Resource: tc.plural}
			object := phasekube.New[string](w.user, gvr, namespace, "probe", opts)
			report, err := object.Preflight(t.Context(), phase.Backup[string]())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range report.Findings {
				got = append(got, f.Severity.String()+" "+string(f.Problem)+" "+f.Field)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("%s: the preflight finds %q, want %q\n%v", tc.reason, got, tc.want, report)
			}
			state, err := w.walk(t, object, tc.message)
			if !errors.Is(err, tc.err) || (err == nil) != (tc.err == nil) {
				t.Fatalf("%s: the work ends with %v in %q, want %v", tc.reason, err, state.Phase, tc.err)
			}
			if tc.err != nil && tc.after != "" && state.Phase != tc.after {
				t.Errorf("%s: it is refused after %q, want after %q", tc.reason, state.Phase, tc.after)
			}
			if owner := state.Owner; tc.err == nil && (owner == "") != (tc.lost == "owner") {
				t.Errorf("%s: the owner is %q, lost is %q", tc.reason, owner, tc.lost)
			}
			if report.ConditionsOff() {
				opts.Fields = report.Fields()
				if state, err = w.walk(t, phasekube.New[string](w.user, gvr, namespace, "probe", opts), ""); err != nil || state.Phase != phase.PartiallyFailed {
					t.Errorf("without conditions it ends with %v in %q", err, state.Phase)
				}
			}
		})
	}
}

// walk takes the object through the machine, with a failure on the way.
func (w *phaseWorld) walk(t *testing.T, object phase.Object[string], message string) (phase.State[string], error) {
	t.Helper()
	a, err := phase.NewApplier(phase.Backup[string](), object, phase.ApplierOptions[string]{Owner: "replica-1", RetryFor: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	state, err := a.Load(t.Context())
	if err != nil {
		return state, err
	}
	if state, err = a.Apply(t.Context(), state, phase.EventStart, ""); err != nil {
		return state, err
	}
	if message != "" {
		if state, err = a.Apply(t.Context(), state, phase.EventFatal, message); err != nil {
			return state, err
		}
	}
	for _, tally := range []phase.Tally{{Running: 1, Failed: 1}, {Completed: 1}, {Completed: 1}} {
		if state, err = a.Advance(t.Context(), state, tally); err != nil {
			return state, err
		}
	}
	return a.Load(t.Context())
}
