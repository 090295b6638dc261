package backuptest_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

const backupCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: backups.example.dev}
spec:
  group: example.dev
  scope: Namespaced
  names: {plural: backups, kind: Backup, shortNames: [bk], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    selectableFields: [{jsonPath: .spec.mode}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [mode]
            properties:
              mode: {type: string, enum: [full, incremental]}
              keep: {type: integer, minimum: 1, maximum: 9, default: 3}
              name: {type: string, pattern: "^[a-z]+$", maxLength: 5, minLength: 2}
              port: {x-kubernetes-int-or-string: true}
              open: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {num: {type: integer}}}
              tags: {type: object, additionalProperties: {type: string}}
              list:
                type: array
                maxItems: 2
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [id]
                items: {type: object, properties: {id: {type: string}, num: {type: integer, default: 7}}}
              source:
                type: object
                properties: {claim: {type: string}, content: {type: string}}
                oneOf: [{required: [claim]}, {required: [content]}]
          status:
            type: object
            properties:
              phase: {type: string, enum: [New, Done]}
`

var (
	crdGVR    = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	backupGVR = schema.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "backups"}
)

func fromYAML(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

func define(t *testing.T, c clients) dynamic.ResourceInterface {
	t.Helper()
	if _, err := c.dynamic.Resource(crdGVR).Create(t.Context(), fromYAML(t, backupCRD), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return c.dynamic.Resource(backupGVR).Namespace("app")
}

func backup(t *testing.T, spec string) *unstructured.Unstructured {
	t.Helper()
	return fromYAML(t, "apiVersion: example.dev/v1\nkind: Backup\nmetadata: {name: one}\nspec: "+spec+"\n")
}

// B1, all-6: a CustomResourceDefinition is served from its creation on, with its schema: what is unknown is dropped, what
// is left out gets its default, what does not fit is refused by its path.
func TestCustomResourceSchema(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		spec, want string   // as YAML
		faults     []string // parts of the refusal
	}{
		"defaults":        {spec: `{mode: full}`, want: `{mode: full, keep: 3}`},
		"given":           {spec: `{mode: full, keep: 4}`, want: `{mode: full, keep: 4}`},
		"unknown":         {spec: `{mode: full, colour: red, tags: {a: b}}`, want: `{mode: full, keep: 3, tags: {a: b}}`},
		"kept":            {spec: `{mode: full, open: {x: {z: 1}, num: 2}}`, want: `{mode: full, keep: 3, open: {x: {z: 1}, num: 2}}`},
		"in a list":       {spec: `{mode: full, list: [{id: a, x: y}, {id: b, num: 1}]}`, want: `{mode: full, keep: 3, list: [{id: a, num: 7}, {id: b, num: 1}]}`},
		"int or string":   {spec: `{mode: full, port: http}`, want: `{mode: full, keep: 3, port: http}`},
		"one of":          {spec: `{mode: full, source: {claim: a}}`, want: `{mode: full, keep: 3, source: {claim: a}}`},
		"null":            {spec: `{mode: full, keep: null}`, want: `{mode: full, keep: 3}`},
		"enum":            {spec: `{mode: partial}`, faults: []string{`spec.mode: Unsupported value: "partial": supported values: "full", "incremental"`}},
		"required":        {spec: `{}`, faults: []string{`spec.mode: Required value`}},
		"type":            {spec: `{mode: 3}`, faults: []string{`spec.mode: Invalid value: "integer": spec.mode in body must be of type string: "integer"`}},
		"many":            {spec: `{mode: full, keep: 0, name: A}`, faults: []string{`spec.keep in body should be greater than or equal to 1`, `spec.name in body should be at least 2 chars long`, `spec.name in body should match '^[a-z]+$'`}},
		"too much":        {spec: `{mode: full, keep: 10, name: abcdef}`, faults: []string{`spec.keep in body should be less than or equal to 9`, `spec.name: Too long: may not be more than 5 bytes`}},
		"int or string 2": {spec: `{mode: full, port: [1]}`, faults: []string{`spec.port in body must be of type integer,string: "array"`}},
		"below kept":      {spec: `{mode: full, open: {num: x}}`, faults: []string{`spec.open.num in body must be of type integer: "string"`}},
		"values":          {spec: `{mode: full, tags: {a: 1}}`, faults: []string{`spec.tags.a in body must be of type string: "integer"`}},
		"list":            {spec: `{mode: full, list: [{id: a}, {id: a}, {id: b}]}`, faults: []string{`spec.list: Too many: 3: must have at most 2 items`, `spec.list[1]: Duplicate value`}},
		"neither":         {spec: `{mode: full, source: {}}`, faults: []string{`spec.source in body must validate one and only one schema (oneOf)`}},
		"both":            {spec: `{mode: full, source: {claim: a, content: b}}`, faults: []string{`spec.source in body must validate one and only one schema (oneOf)`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, backuptest.Options{}, func(c clients) {
				t := c.t
				backups := define(t, c)
				made, err := backups.Create(t.Context(), backup(t, tc.spec), metav1.CreateOptions{})
				if len(tc.faults) > 0 {
					for _, fault := range tc.faults {
						if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), fault) {
							t.Errorf("create = %v, want Invalid: %s", err, fault)
						}
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(backup(t, tc.want).Object["spec"], made.Object["spec"]); diff != "" {
					t.Errorf("spec -want +got:\n%s", diff)
				}
			})
		})
	}
}

// B1: status is a subresource of what a definition says has one, its enum is kept too, and a field can be selected by.
func TestCustomResourceStatus(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		backups := define(t, c)
		sent := backup(t, `{mode: full}`)
		sent.Object["status"] = map[string]any{"phase": "Done"}
		made, err := backups.Create(t.Context(), sent, metav1.CreateOptions{})
		if err != nil || made.Object["status"] != nil || made.GetGeneration() != 1 {
			t.Fatalf("created = %v, %v, want no status", made, err)
		}
		phase := func(value string) error {
			_, err := backups.Patch(t.Context(), "one", types.MergePatchType, []byte(`{"status":{"phase":"`+value+`","more":1}}`), metav1.PatchOptions{}, "status")
			return err
		}
		if err := phase("Done"); err != nil {
			t.Error(err)
		}
		if err := phase("Odd"); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `status.phase: Unsupported value: "Odd": supported values: "New", "Done"`) {
			t.Errorf("odd phase = %v, want Invalid", err)
		}
		got, err := backups.Get(t.Context(), "one", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]any{"phase": "Done"}, got.Object["status"]); diff != "" {
			t.Errorf("status -want +got:\n%s", diff)
		}
		for selector, want := range map[string]int{"spec.mode=full": 1, "spec.mode!=full": 0} {
			if list, err := backups.List(t.Context(), metav1.ListOptions{FieldSelector: selector}); err != nil || len(list.Items) != want {
				t.Errorf("%s: %v, %v, want %d", selector, list, err, want)
			}
		}
	})
}

// B1, all-6: fieldValidation refuses, tells of or overlooks unknown and duplicate fields, in built-in and in custom kinds.
func TestFieldValidation(t *testing.T) {
	t.Parallel()
	const (
		maps   = "/api/v1/namespaces/app/configmaps"
		custom = "/apis/example.dev/v1/namespaces/app/backups"
	)
	tests := map[string]struct {
		path, body, media string
		faults            []string
	}{
		"built-in": {maps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","colour":"red"},"shape":1,"data":{"a":"1","a":"2"}}`, "application/json", []string{`unknown field "metadata.colour"`, `unknown field "shape"`, `duplicate field "data.a"`}},
		"custom":   {custom, `{"apiVersion":"example.dev/v1","kind":"Backup","metadata":{"name":"x","colour":"red"},"spec":{"mode":"full","mode":"full","list":[{"id":"a","no":1}]}}`, "application/json", []string{`unknown field "metadata.colour"`, `unknown field "spec.list[0].no"`, `duplicate field "spec.mode"`}},
		"yaml":     {custom, "apiVersion: example.dev/v1\nkind: Backup\nmetadata: {name: x}\nspec: {mode: full, nope: 1}\n", "application/yaml", []string{`unknown field "spec.nope"`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, backuptest.Options{}, func(c clients) {
				t := c.t
				define(t, c)
				post := func(validation string) ([]string, error) {
					seen := &warnings{}
					config := c.cluster.Config()
					config.WarningHandler = seen
					config.GroupVersion, config.NegotiatedSerializer = &schema.GroupVersion{Version: "v1"}, basicCodecs
					client, err := rest.RESTClientFor(config)
					if err != nil {
						t.Fatal(err)
					}
					err = client.Post().AbsPath(tc.path).Param("fieldValidation", validation).Param("dryRun", "All").SetHeader("Content-Type", tc.media).Body([]byte(tc.body)).Do(t.Context()).Error()
					return seen.texts, err
				}
				for _, validation := range []string{"", metav1.FieldValidationWarn} {
					got, err := post(validation)
					if diff := cmp.Diff(len(tc.faults), len(got)); err != nil || diff != "" {
						t.Errorf("%q: %v, %v, want %v", validation, got, err, tc.faults)
					}
					for _, fault := range tc.faults {
						if !strings.Contains(strings.Join(got, "\n"), fault) {
							t.Errorf("%q: warnings %q, want %s", validation, got, fault)
						}
					}
				}
				if got, err := post(metav1.FieldValidationIgnore); err != nil || len(got) > 0 {
					t.Errorf("Ignore: %v, %v, want neither", got, err)
				}
				_, err := post(metav1.FieldValidationStrict)
				for _, fault := range append(tc.faults, "strict decoding error: ") {
					if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), fault) {
						t.Errorf("Strict: %v, want BadRequest: %s", err, fault)
					}
				}
				if _, err := post("Sometimes"); !apierrors.IsInvalid(err) {
					t.Errorf("Sometimes: %v, want Invalid", err)
				}
			})
		})
	}
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		backups := define(t, c)
		if _, err := backups.Create(t.Context(), backup(t, "{mode: full}"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		_, err := backups.Patch(t.Context(), "one", types.MergePatchType, []byte(`{"spec":{"no":1}}`), metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `patch: Invalid value: "": strict decoding error: unknown field "spec.no"`) {
			t.Errorf("strict patch = %v, want Invalid", err)
		}
	})
}

// B1: a definition has the status that clients wait for, is discovered, and ends with its objects.
func TestDefinitionLifecycle(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		if _, err := c.dynamic.Resource(backupGVR).List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
			t.Fatalf("list before the definition = %v, want NotFound", err)
		}
		backups := define(t, c)
		crds := c.dynamic.Resource(crdGVR)
		crd, err := crds.Get(t.Context(), "backups.example.dev", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		conditions := map[string]string{}
		list, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
		for _, item := range list {
			cond, _ := item.(map[string]any)
			conditions[cond["type"].(string)] = cond["status"].(string) //nolint:forcetypeassert // a panic fails the test
		}
		if diff := cmp.Diff(map[string]string{"NamesAccepted": "True", "Established": "True"}, conditions); diff != "" {
			t.Errorf("conditions -want +got:\n%s", diff)
		}
		group, err := c.core.Discovery().ServerResourcesForGroupVersion("example.dev/v1")
		if err != nil || len(group.APIResources) != 2 || group.APIResources[0].ShortNames[0] != "bk" || group.APIResources[0].Categories[0] != "all" {
			t.Errorf("discovered %+v, %v", group, err)
		}
		held := backup(t, "{mode: full}")
		held.SetFinalizers([]string{"example.dev/hold"})
		made, err := backups.Create(t.Context(), held, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}

		// a new version, served with the objects that are there
		spec, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		next := (&unstructured.Unstructured{Object: spec[0].(map[string]any)}).DeepCopy().Object //nolint:forcetypeassert // a panic fails the test
		next["name"], next["storage"] = "v2", false
		if err := unstructured.SetNestedSlice(crd.Object, append(spec, next), "spec", "versions"); err != nil {
			t.Fatal(err)
		}
		if crd, err = crds.Update(t.Context(), crd, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		second := backupGVR
		second.Version = "v2"
		if got, err := c.dynamic.Resource(second).Namespace("app").Get(t.Context(), "one", metav1.GetOptions{}); err != nil || got.GetAPIVersion() != "example.dev/v2" {
			t.Errorf("get in v2 = %v, %v", got, err)
		}

		w, err := backups.Watch(t.Context(), metav1.ListOptions{ResourceVersion: made.GetResourceVersion()})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		if err := crds.Delete(t.Context(), crd.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if e := <-w.ResultChan(); e.Type != watch.Modified {
			t.Errorf("event = %v, want MODIFIED by a deletion time", e)
		}
		if _, err := backups.Create(t.Context(), backup(t, "{mode: full}"), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) && !apierrors.IsForbidden(err) {
			t.Errorf("create = %v, want it refused", err)
		}
		other := backup(t, "{mode: full}")
		other.SetName("two")
		if _, err := backups.Create(t.Context(), other, metav1.CreateOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "custom resource definition is terminating") {
			t.Errorf("create = %v, want Forbidden", err)
		}
		if _, err := crds.Get(t.Context(), crd.GetName(), metav1.GetOptions{}); err != nil {
			t.Errorf("definition = %v, want it held by its object", err)
		}
		if _, err := backups.Patch(t.Context(), "one", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		if e := <-w.ResultChan(); e.Type != watch.Deleted {
			t.Errorf("event = %v, want DELETED", e)
		}
		if _, open := <-w.ResultChan(); open {
			t.Error("the watch goes on, want its end with the resource's")
		}
		if _, err := crds.Get(t.Context(), crd.GetName(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("definition = %v, want NotFound", err)
		}
		if _, err := backups.List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("list = %v, want NotFound", err)
		}
		define(t, c)
		if list, err := backups.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
			t.Errorf("list after a new definition = %v, %v, want nothing", list, err)
		}
	})
}

// B1: a definition that contradicts itself is refused by the field at fault.
func TestDefinitionRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ old, replacement, want string }{
		"name":        {"name: backups.example.dev", "name: others.example.dev", "metadata.name"},
		"no group":    {"  group: example.dev\n", "", "spec.group: Required value"},
		"scope":       {"scope: Namespaced", "scope: Galaxy", `spec.scope: Unsupported value: "Galaxy"`},
		"no storage":  {"storage: true", "storage: false", "spec.versions"},
		"not served":  {"served: true", "served: false", "spec.versions"},
		"bad pattern": {"^[a-z]+$", "[", "spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[name].pattern"},
		"no schema":   {"openAPIV3Schema:", "other:", "spec.versions[0].schema.openAPIV3Schema: Required value"},
		"bad kind":    {"kind: Backup,", "kind: 'Back up',", "spec"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, backuptest.Options{}, func(c clients) {
				_, err := c.dynamic.Resource(crdGVR).Create(c.t.Context(), fromYAML(c.t, strings.Replace(backupCRD, tc.old, tc.replacement, 1)), metav1.CreateOptions{})
				if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.want) {
					c.t.Errorf("create = %v, want Invalid naming %s", err, tc.want)
				}
			})
		})
	}
}

// B1: definitions are loaded before what they define, and are kept in the file.
func TestDefinitionsInDumpAndFile(t *testing.T) {
	t.Parallel()
	const object = "---\napiVersion: example.dev/v1\nkind: Backup\nmetadata: {namespace: app, name: one}\nspec: {mode: full, colour: red}\nstatus: {phase: Done}\n"
	file := filepath.Join(t.TempDir(), "state.json")
	for _, round := range []string{"loaded", "restored"} {
		inBubble(t, backuptest.Options{File: file}, func(c clients) {
			t := c.t
			if round == "loaded" {
				if skipped, err := c.cluster.Load(strings.NewReader(object + "---" + backupCRD)); err != nil || len(skipped) > 0 {
					t.Fatalf("Load = %v, %v", skipped, err)
				}
			}
			got, err := c.dynamic.Resource(backupGVR).Namespace("app").Get(t.Context(), "one", metav1.GetOptions{})
			if err != nil {
				t.Fatalf("%s: %v", round, err)
			}
			want := map[string]any{"mode": "full", "keep": int64(3)}
			if diff := cmp.Diff(want, got.Object["spec"]); diff != "" || got.Object["status"] == nil {
				t.Errorf("%s: %v, spec -want +got:\n%s", round, got, diff)
			}
			bad := backup(t, "{mode: odd}")
			bad.SetNamespace("app")
			bad.SetName("two")
			if err := c.cluster.Add(bad); !apierrors.IsInvalid(err) {
				t.Errorf("%s: Add of what does not fit = %v, want Invalid", round, err)
			}
		})
	}
}

// warnings collects what a server warns of.
type warnings struct{ texts []string }

func (w *warnings) HandleWarningHeader(_ int, _, text string) { w.texts = append(w.texts, text) }

var basicCodecs = serializer.NewCodecFactory(scheme.Scheme).WithoutConversion()
