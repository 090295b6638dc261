package phasekube_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/phase"
	"github.com/sheetanchor/sheetanchor/phase/phasekube"
)

// crd is a definition that suits every field; cases change it.
type crd struct {
	spec    map[string]any
	version map[string]any // the one in use
	status  map[string]any // its schema
}

func text(extra ...any) map[string]any {
	m := map[string]any{"type": "string"}
	for i := 0; i < len(extra); i += 2 {
		m[extra[i].(string)] = extra[i+1]
	}
	return m
}

func object(properties map[string]any) map[string]any {
	return map[string]any{"type": "object", "properties": properties}
}

func enumOf(phases ...string) []any {
	list := []any{}
	for _, p := range phases {
		list = append(list, p)
	}
	return list
}

// ours are the phases that the backup machine writes.
func ours() []string {
	var phases []string
	for _, tr := range phase.Backup[string]().Transitions() {
		phases = append(phases, tr.To)
	}
	slices.Sort(phases)
	return slices.Compact(phases)
}

func newCRD() crd {
	status := object(map[string]any{
		"phase": text("enum", enumOf(ours()...)), "reason": text(), "message": text(), "owner": text(),
		"started": text("format", "date-time"), "completed": text("format", "date-time"),
		"conditions": map[string]any{"type": "array", "items": object(map[string]any{
			"type": text(), "status": text(), "reason": text(), "message": text(), "lastTransitionTime": text("format", "date-time"),
			"observedGeneration": map[string]any{"type": "integer"},
		})},
	})
	version := map[string]any{
		"name": "v1", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
		"schema": map[string]any{"openAPIV3Schema": object(map[string]any{"spec": map[string]any{"type": "object"}, "status": status})},
	}
	return crd{
		spec: map[string]any{
			"group": "example.dev", "scope": "Namespaced", "names": map[string]any{"plural": "runs"}, "versions": []any{version},
		},
		version: version, status: status,
	}
}

// add puts another version beside the one in use, made by change from an equal one.
func (c crd) add(name string, change func(version, status map[string]any)) {
	other := newCRD()
	other.version["name"], other.version["storage"] = name, false
	change(other.version, other.status)
	c.spec["versions"] = append(c.spec["versions"].([]any), other.version)
}

func (c crd) property(name string) map[string]any {
	return c.status["properties"].(map[string]any)[name].(map[string]any)
}

func (c crd) drop(names ...string) {
	for _, name := range names {
		delete(c.status["properties"].(map[string]any), name)
	}
}

func (c crd) objects() []runtime.Object {
	return []runtime.Object{&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "runs.example.dev"}, "spec": c.spec,
		"status": map[string]any{"conditions": []any{
			map[string]any{"type": "NamesAccepted", "status": "True"}, map[string]any{"type": "Established", "status": "True"},
		}},
	}}}
}

func preflightOptions() phasekube.Options {
	return phasekube.Options{StatusSubresource: true, Fields: phasekube.Fields{
		Phase: "status.phase", Reason: "status.reason", Message: "status.message", Owner: "status.owner", Started: "status.started",
		Completed: "status.completed", Conditions: "status.conditions",
	}}
}

func preflightCluster(t *testing.T, objects []runtime.Object) (*backuptest.Cluster, dynamic.Interface) {
	t.Helper()
	cluster := backuptest.New(t, backuptest.Options{
		Resources: []backuptest.Resource{
			{Group: "example.dev", Version: "v1", Kind: "Run", Plural: "runs", Namespaced: true, Status: true},
		},
		Objects: objects,
	})
	return cluster, dynamic.NewForConfigOrDie(cluster.Config())
}

// P8: phase-4: what the definition says is found before anything is written, and told apart by how much it matters.
func TestPreflight(t *testing.T) {
	t.Parallel()
	const fatal, degraded, unchecked = phasekube.SeverityFatal, phasekube.SeverityDegraded, phasekube.SeverityUnchecked
	finding := func(severity phasekube.Severity, problem phasekube.Problem, field, version string, phases ...string) phasekube.Finding {
		f := phasekube.Finding{Severity: severity, Problem: problem, Field: field, Version: version, Phases: phases}
		if field != "" {
			f.Path = "status." + strings.ToLower(field[:1]) + field[1:]
		}
		return f
	}
	tests := map[string]struct {
		reason string
		crd    func(c crd)
		opts   func(o *phasekube.Options)
		want   []phasekube.Finding
		hint   string // in the text of the first finding
	}{
		"all is well": {reason: "nothing to say", crd: func(crd) {}},
		"a phase is not in the enum": {
			reason: "phase-4: the write would be 422", crd: func(c crd) { c.property("phase")["enum"] = enumOf("InProgress", "Completed") },
			want: []phasekube.Finding{finding(fatal, phasekube.ProblemPhases, "Phase", "v1", slices.DeleteFunc(ours(), func(p string) bool {
				return p == "InProgress" || p == "Completed"
			})...)},
			hint: "Finalizing",
		},
		"the pattern refuses a phase": {
			reason: "the write would be 422", crd: func(c crd) { c.property("phase")["pattern"] = "^[^F]" },
			want: []phasekube.Finding{finding(fatal, phasekube.ProblemPhases, "Phase", "v1",
				"Failed", "FailedValidation", "Finalizing", "FinalizingPartiallyFailed")},
		},
		"an enum of the type and one of the field": {
			reason: "generators write allOf", crd: func(c crd) {
				delete(c.property("phase"), "enum")
				c.property("phase")["allOf"] = []any{
					map[string]any{"enum": enumOf(ours()...)},
					map[string]any{"enum": enumOf(slices.DeleteFunc(ours(), func(p string) bool { return p == "Failed" })...)},
				}
			},
			want: []phasekube.Finding{finding(fatal, phasekube.ProblemPhases, "Phase", "v1", "Failed")},
		},
		"one of several enums": {
			reason: "what fits none of them, or two where it may be one, is refused", crd: func(c crd) {
				c.property("phase")["anyOf"] = []any{map[string]any{"pattern": "^F"}, map[string]any{"pattern": "[dw]$"}}
				c.property("phase")["oneOf"] = []any{map[string]any{"maxLength": int64(6)}, map[string]any{"pattern": "^Failed"}, map[string]any{"minLength": int64(7)}}
				c.property("phase")["not"] = map[string]any{"enum": enumOf("PartiallyFailed")}
			},
			want: []phasekube.Finding{finding(fatal, phasekube.ProblemPhases, "Phase", "v1",
				"Failed", "FailedValidation", "InProgress", "PartiallyFailed", "WaitingForPluginOperations")},
		},
		"a choice above the fields": {
			reason: "only the server evaluates it", crd: func(c crd) {
				c.status["anyOf"] = []any{map[string]any{"required": []any{"phase"}}, map[string]any{"required": []any{"x"}}}
			},
			want: []phasekube.Finding{finding(unchecked, phasekube.ProblemNotChecked, "Phase", "v1")}, hint: "status has anyOf",
		},
		"a number or a text": {
			reason: "both may stand there", crd: func(c crd) {
				c.property("phase")["type"], c.property("phase")["x-kubernetes-int-or-string"] = nil, true
				c.property("phase")["anyOf"] = []any{map[string]any{"type": "integer"}, map[string]any{"type": "string"}}
			},
		},
		"conditions of certain types": {
			reason: "every write would be 422: they are off and reported", crd: func(c crd) {
				items := c.property("conditions")["items"].(map[string]any)
				items["properties"].(map[string]any)["type"] = text("enum", enumOf("Ready", "Stalled"))
			},
			want: []phasekube.Finding{finding(degraded, phasekube.ProblemType, "Conditions", "v1")}, hint: `"type" cannot be Finished, Reconciling`,
		},
		"few conditions": {
			reason: "there is no room for ours", crd: func(c crd) { c.property("conditions")["maxItems"] = int64(3) },
			want: []phasekube.Finding{finding(degraded, phasekube.ProblemRestricted, "Conditions", "v1"), finding(degraded, phasekube.ProblemType, "Conditions", "v1")},
		},
		"conditions of others may fill the list": {
			reason: "it depends on them", crd: func(c crd) { c.property("conditions")["maxItems"] = int64(8) },
			want: []phasekube.Finding{finding(degraded, phasekube.ProblemRestricted, "Conditions", "v1")}, hint: "maxItems",
		},
		"an owner of a format": {
			reason: "a name may not fit", crd: func(c crd) { c.property("owner")["format"] = "uuid" },
			want: []phasekube.Finding{finding(degraded, phasekube.ProblemRestricted, "Owner", "v1")}, hint: "format",
		},
		"a phase is too long": {
			reason: "the write would be 422",
			crd: func(c crd) {
				c.property("phase")["maxLength"], c.property("phase")["minLength"] = int64(26), float64(7)
			},
			want: []phasekube.Finding{finding(fatal, phasekube.ProblemPhases, "Phase", "v1",
				"Failed", "WaitingForPluginOperationsPartiallyFailed")},
		},
		"fields are not in the schema": {
			reason: "strict validation refuses every write", crd: func(c crd) { c.drop("reason", "owner") },
			want: []phasekube.Finding{
				finding(fatal, phasekube.ProblemNoField, "Owner", "v1"), finding(fatal, phasekube.ProblemNoField, "Reason", "v1"),
			},
			hint: "status.owner is not in the schema",
		},
		"no conditions": {
			reason: "they are off and reported", crd: func(c crd) { c.drop("conditions") },
			want: []phasekube.Finding{finding(degraded, phasekube.ProblemNoField, "Conditions", "v1")},
		},
		"conditions of another kind": {
			reason: "they are off and reported",
			crd: func(c crd) {
				items := c.property("conditions")["items"].(map[string]any)
				delete(items["properties"].(map[string]any), "observedGeneration")
				items["required"] = []any{"type", "severity"}
			},
			want: []phasekube.Finding{
				finding(degraded, phasekube.ProblemType, "Conditions", "v1"), finding(degraded, phasekube.ProblemType, "Conditions", "v1"),
			},
			hint: `no "observedGeneration"`,
		},
		"conditions are no list": {
			reason: "they are off and reported", crd: func(c crd) { c.property("conditions")["type"] = "object" },
			want: []phasekube.Finding{finding(degraded, phasekube.ProblemType, "Conditions", "v1")},
		},
		"a number and a day": {
			reason: "a text is refused",
			crd:    func(c crd) { c.property("owner")["type"], c.property("started")["format"] = "integer", "date" },
			want: []phasekube.Finding{
				finding(fatal, phasekube.ProblemType, "Owner", "v1"), finding(fatal, phasekube.ProblemType, "Started", "v1"),
			},
		},
		"a short message": {
			reason: "some values are refused", crd: func(c crd) { c.property("message")["maxLength"] = int64(80) },
			want: []phasekube.Finding{finding(degraded, phasekube.ProblemRestricted, "Message", "v1")}, hint: "maxLength",
		},
		"unknown fields are kept": {
			reason: "no field is missing then",
			crd: func(c crd) {
				c.drop("reason", "owner", "conditions")
				c.status["x-kubernetes-preserve-unknown-fields"] = true
			},
		},
		"unknown fields are kept below only": {
			reason: "what is named is checked all the same",
			crd: func(c crd) {
				c.drop("reason", "owner")
				c.status["x-kubernetes-preserve-unknown-fields"] = true
				c.property("phase")["enum"] = enumOf("Failed")
			},
			want: []phasekube.Finding{finding(fatal, phasekube.ProblemPhases, "Phase", "v1", slices.DeleteFunc(ours(), func(p string) bool { return p == "Failed" })...)},
		},
		"nothing is pruned": {
			reason: "as in definitions of the first form",
			crd:    func(c crd) { c.drop("reason", "owner"); c.spec["preserveUnknownFields"] = true },
		},
		"a map": {
			reason: "it takes any name",
			crd: func(c crd) {
				delete(c.status, "properties")
				c.status["additionalProperties"] = map[string]any{"x-kubernetes-preserve-unknown-fields": true}
			},
			opts: func(o *phasekube.Options) { o.Fields.Conditions = "" },
		},
		"status is no subresource": {
			reason: "a write would be NotFound", crd: func(c crd) { delete(c.version, "subresources") },
			want: []phasekube.Finding{finding(fatal, phasekube.ProblemSubresource, "", "v1")}, hint: "is no subresource",
		},
		"status is a subresource": {
			reason: "the fields would be dropped without a word", crd: func(crd) {},
			opts: func(o *phasekube.Options) {
				*o = phasekube.Options{Fields: phasekube.Fields{Phase: "status.phase", Owner: `metadata.annotations.example\.dev/owner`}}
			},
			want: []phasekube.Finding{finding(fatal, phasekube.ProblemSubresource, "Phase", "v1")}, hint: "is not set",
		},
		"the version is not served": {
			reason: "phase-4: a NotFound that names no object", crd: func(c crd) { c.version["name"] = "v2" },
			want: []phasekube.Finding{finding(fatal, phasekube.ProblemUnserved, "", "v1")}, hint: "serves v2",
		},
		"no version is served": {
			reason: "it says so", crd: func(c crd) { c.version["served"] = false },
			want: []phasekube.Finding{finding(fatal, phasekube.ProblemUnserved, "", "v1")}, hint: "no version",
		},
		"cluster-wide": {
			reason: "the object has a namespace", crd: func(c crd) { c.spec["scope"] = "Cluster" },
			want: []phasekube.Finding{finding(fatal, phasekube.ProblemScope, "", "")}, hint: "has a namespace",
		},
		"a field is required": {
			reason: "the first write makes the status, without it",
			crd: func(c crd) {
				c.status["required"] = []any{"phase", "owner", "counted"}
				c.status["properties"].(map[string]any)["counted"] = map[string]any{"type": "integer", "default": int64(0)}
			},
			want: []phasekube.Finding{finding(degraded, phasekube.ProblemRequired, "Phase", "v1")}, hint: `requires "owner"`,
		},
		"rules": {
			reason: "only the server evaluates them",
			crd: func(c crd) {
				c.status["x-kubernetes-validations"] = []any{map[string]any{"rule": "self.phase != 'x'"}}
			},
			want: []phasekube.Finding{finding(unchecked, phasekube.ProblemNotChecked, "Phase", "v1")}, hint: "x-kubernetes-validations",
		},
		"no schema": {
			reason: "nothing is known", crd: func(c crd) { delete(c.version, "schema") },
			want: []phasekube.Finding{finding(unchecked, phasekube.ProblemNotChecked, "", "v1")},
		},
		"another version is the same": {reason: "nothing to say", crd: func(c crd) { c.add("v2", func(_, _ map[string]any) {}) }},
		"another version lacks a field": {
			reason: "who writes there takes it away",
			crd: func(c crd) {
				c.add("v2", func(_, status map[string]any) { delete(status["properties"].(map[string]any), "owner") })
			},
			want: []phasekube.Finding{finding(degraded, phasekube.ProblemOtherVersion, "Owner", "v2")},
		},
		"a version that is neither served nor stored": {
			reason: "nobody meets it",
			crd: func(c crd) {
				c.add("v2", func(version, status map[string]any) { version["served"] = false; delete(status, "properties") })
			},
		},
		"the stored version lacks fields": {
			reason: "what it lacks is lost",
			crd: func(c crd) {
				c.version["storage"] = false
				c.add("v2", func(version, status map[string]any) {
					version["storage"], version["served"] = true, false
					delete(status["properties"].(map[string]any), "owner")
					delete(status["properties"].(map[string]any), "conditions")
				})
			},
			want: []phasekube.Finding{
				finding(fatal, phasekube.ProblemOtherVersion, "Owner", "v2"), finding(degraded, phasekube.ProblemOtherVersion, "Conditions", "v2"),
			},
		},
		"a webhook converts": {
			reason: "it may keep the field elsewhere",
			crd: func(c crd) {
				c.spec["conversion"] = map[string]any{"strategy": "Webhook"}
				c.version["storage"] = false
				c.add("v2", func(version, status map[string]any) {
					version["storage"] = true
					delete(status["properties"].(map[string]any), "owner")
				})
			},
			want: []phasekube.Finding{finding(unchecked, phasekube.ProblemOtherVersion, "Owner", "v2")}, hint: "webhook",
		},
		"an embedded resource": {
			reason: "it has metadata, and of that only labels and annotations of texts",
			crd: func(c crd) {
				c.status["x-kubernetes-embedded-resource"] = true
				c.drop("reason", "conditions")
			},
			opts: func(o *phasekube.Options) {
				o.Fields.Reason, o.Fields.Conditions, o.Fields.Message = "status.metadata.annotations.reason", "", "status.metadata.message"
			},
			want: []phasekube.Finding{{Severity: fatal, Problem: phasekube.ProblemNoField, Field: "Message", Path: "status.metadata.message", Version: "v1"}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCRD()
				tc.crd(c)
				cluster, client := preflightCluster(t, c.objects())
				opts := preflightOptions()
				if tc.opts != nil {
					tc.opts(&opts)
				}
				report, err := phasekube.New[myPhase](client, runs, "app", "any", opts).Preflight(t.Context(), phase.Backup[myPhase]())
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, report.Findings, cmpopts.IgnoreFields(phasekube.Finding{}, "Detail"), cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%s: findings (-want +got):\n%s%v", tc.reason, diff, report)
				}
				if !strings.Contains(report.String(), tc.hint) || !strings.HasPrefix(report.String(), "runs.example.dev/v1: ") {
					t.Errorf("report = %v, want %q in it", report, tc.hint)
				}
				wantFatal := slices.ContainsFunc(tc.want, func(f phasekube.Finding) bool { return f.Severity == fatal })
				failed, ok := errors.AsType[*phasekube.PreflightError](report.Err())
				if ok != wantFatal || ok && (len(failed.Findings) == 0 || !strings.Contains(failed.Error(), "runs.example.dev/v1")) {
					t.Errorf("Err() = %v, want one %v", report.Err(), wantFatal)
				}
				unserved := slices.ContainsFunc(tc.want, func(f phasekube.Finding) bool { return f.Problem == phasekube.ProblemUnserved })
				if ok && (errors.Is(report.Err(), phase.ErrMissingAPI) != unserved || errors.Is(report.Err(), phase.ErrInvalid) == unserved) {
					t.Errorf("Err() = %v, want ErrMissingAPI %v, else ErrInvalid", report.Err(), unserved)
				}
				off := slices.ContainsFunc(tc.want, func(f phasekube.Finding) bool {
					return f.Field == "Conditions" && f.Problem != phasekube.ProblemOtherVersion && f.Problem != phasekube.ProblemRestricted
				})
				fields := opts.Fields
				if off {
					fields.Conditions = ""
				}
				if report.ConditionsOff() != off || report.Fields() != fields {
					t.Errorf("conditions off = %v, fields %+v, want %v, %+v", report.ConditionsOff(), report.Fields(), off, fields)
				}
				for what, n := range cluster.Requests() {
					if !strings.HasPrefix(what, "get ") || n > 2 {
						t.Errorf("%s: %d requests, want reads only", what, n)
					}
				}
			})
		})
	}
}

// P8: P5: what can be said when the definition, the object or the API is not there or may not be read. A missing permission
// is no error.
func TestPreflightWithoutAnswers(t *testing.T) {
	t.Parallel()
	own := schema.GroupVersionResource{Group: "none.dev", Version: "v1", Resource: "things"}
	fault := func(resource string, code int) backuptest.Fault {
		return backuptest.Fault{Verb: "get", Resource: resource, Code: code}
	}
	established := func(conditions ...any) []runtime.Object {
		objects := newCRD().objects()
		objects[0].(*unstructured.Unstructured).Object["status"] = map[string]any{"conditions": conditions}
		return objects
	}
	deleting := newCRD().objects()
	deleting[0].(*unstructured.Unstructured).SetDeletionTimestamp(new(metav1.Now()))
	deleting[0].(*unstructured.Unstructured).SetFinalizers([]string{"example.dev/keep"})
	tests := map[string]struct {
		reason  string
		objects []runtime.Object
		fault   backuptest.Fault
		gvr     schema.GroupVersionResource
		want    []string // severity and problem
		err     error    // of the report
		fails   error    // of the call
		teapot  bool     // it fails with the server's own answer
		least   time.Duration
	}{
		"definitions may not be read": {
			reason: "it is not checked", objects: newCRD().objects(), fault: fault("customresourcedefinitions", http.StatusForbidden), gvr: runs,
			want: []string{"unchecked NotChecked"}, least: 2 * time.Second,
		},
		"definitions may not be read for a second": {
			reason: "P5: a restarted server", objects: newCRD().objects(), gvr: runs, least: 2 * time.Second,
			fault: backuptest.Fault{Resource: "customresourcedefinitions", Code: http.StatusForbidden, Nth: 1, Times: 1},
		},
		"the object may not be read": {
			reason: "the permission may come", objects: newCRD().objects(), fault: fault("runs", http.StatusForbidden), gvr: runs,
			want: []string{"degraded Forbidden"}, least: 2 * time.Second,
		},
		"no definition": {reason: "an aggregated API", gvr: runs, want: []string{"unchecked NotChecked"}},
		"no API": {
			reason: "a NotFound that names no object", gvr: own, want: []string{"fatal Unserved", "unchecked NotChecked"}, err: phase.ErrMissingAPI,
		},
		"built in": {reason: "there is no definition to read", gvr: configMaps},
		"the server is down for a while": {
			reason: "P5: transient", objects: newCRD().objects(), gvr: runs, least: time.Second,
			fault: backuptest.Fault{Action: backuptest.FaultRefuse, Nth: 1, Times: 4},
		},
		"the server is down": {
			reason: "bounded", gvr: runs, fault: backuptest.Fault{Action: backuptest.FaultRefuse}, fails: phase.ErrGaveUp, least: 30 * time.Second,
		},
		"the definition's server hangs": {
			reason: "bounded", gvr: runs, fault: backuptest.Fault{Resource: "customresourcedefinitions", Action: backuptest.FaultHang},
			fails: phase.ErrGaveUp, least: 30 * time.Second,
		},
		"not established": {
			reason: "names clash", gvr: runs, objects: established(map[string]any{"type": "Established", "status": "False", "message": "names clash"}),
			want: []string{"fatal Unserved"}, err: phase.ErrMissingAPI,
		},
		"not yet established": {reason: "it is new", gvr: runs, objects: established(), want: []string{"fatal Unserved"}, err: phase.ErrMissingAPI},
		"being deleted":       {reason: "soon there is none", gvr: runs, objects: deleting, want: []string{"fatal Unserved"}, err: phase.ErrMissingAPI},
		"refused": {
			reason: "an answer like no other is final", gvr: runs, fault: fault("customresourcedefinitions", http.StatusTeapot), teapot: true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cluster, client := preflightCluster(t, tc.objects)
				if tc.fault.Code != 0 || tc.fault.Action != backuptest.FaultNone {
					cluster.Fault(tc.fault)
				}
				opts := preflightOptions()
				if tc.gvr == configMaps {
					opts = phasekube.Options{Fields: phasekube.ConfigMapFields()}
				}
				began := time.Now()
				report, err := phasekube.New[myPhase](client, tc.gvr, "app", "any", opts).Preflight(t.Context(), phase.Backup[myPhase]())
				if tc.teapot {
					if status, ok := errors.AsType[*apierrors.StatusError](err); !ok || status.Status().Code != http.StatusTeapot || !strings.Contains(err.Error(), "definition") {
						t.Errorf("Preflight = %v, want the error of the definition", err)
					}
					return
				}
				if !errors.Is(err, tc.fails) || (err == nil) != (tc.fails == nil) {
					t.Fatalf("Preflight = %v, want %v: %s", err, tc.fails, tc.reason)
				}
				var got []string
				for _, f := range report.Findings {
					got = append(got, f.Severity.String()+" "+string(f.Problem))
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("%s: findings (-want +got):\n%s%v", tc.reason, diff, report)
				}
				if err := report.Err(); !errors.Is(err, tc.err) || (err == nil) != (tc.err == nil) {
					t.Errorf("Err() = %v, want %v", err, tc.err)
				}
				if took := time.Since(began); took < tc.least || took > 35*time.Second {
					t.Errorf("it took %v, want at least %v", took, tc.least)
				}
			})
		})
	}
}

// Bad input: definitions that no server has, and calls without what they need.
func TestPreflightOfNonsense(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]any{
		"no spec": nil, "versions are no list": map[string]any{"versions": "many"}, "a version is no object": map[string]any{"versions": []any{"v1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := newCRD().objects()
			objects[0].(*unstructured.Unstructured).Object["spec"] = spec
			_, client := preflightCluster(t, objects)
			synctest.Test(t, func(t *testing.T) {
				_, client = preflightCluster(t, objects)
				_, err := phasekube.New[myPhase](client, runs, "app", "any", preflightOptions()).Preflight(t.Context(), phase.Backup[myPhase]())
				if !errors.Is(err, phase.ErrInvalid) || !strings.Contains(err.Error(), "runs.example.dev") {
					t.Errorf("Preflight = %v, want ErrInvalid that names the definition", err)
				}
			})
		})
	}
	client := newFake(t)
	if _, err := phasekube.NewConfigMap[myPhase](client, "app", "").Preflight(t.Context(), phase.Backup[myPhase]()); !errors.Is(err, phase.ErrInvalid) {
		t.Errorf("without a name: %v, want ErrInvalid", err)
	}
	if _, err := phasekube.NewConfigMap[myPhase](client, "app", "run-1").Preflight(t.Context(), nil); !errors.Is(err, phase.ErrInvalid) {
		t.Errorf("without a machine: %v, want ErrInvalid", err)
	}
	if s := phasekube.Severity(9).String(); s != "Severity(9)" {
		t.Errorf("String() = %q", s)
	}
	// B4: the bare fake of client-go.
	report, err := phasekube.NewConfigMap[myPhase](client, "app", "run-1").Preflight(t.Context(), phase.Backup[myPhase]())
	if err != nil || len(report.Findings) != 0 || report.String() != "configmaps/v1: no findings" {
		t.Errorf("Preflight of a ConfigMap = %v, %v, want nothing", report, err)
	}
}

// P8: a namespaced resource and an object without a namespace.
func TestPreflightOfTheWrongScope(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, client := preflightCluster(t, newCRD().objects())
		report, err := phasekube.New[myPhase](client, runs, "", "any", preflightOptions()).Preflight(t.Context(), phase.Backup[myPhase]())
		if err != nil || !strings.Contains(report.String(), "the object has none") || !errors.Is(report.Err(), phase.ErrMissingAPI) && !errors.Is(report.Err(), phase.ErrInvalid) {
			t.Errorf("Preflight = %v, %v, want the scope reported as fatal", report, err)
		}
	})
}
