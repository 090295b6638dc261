package backuptest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

func TestStartRefuses(t *testing.T) {
	t.Parallel()
	good := backuptest.Resource{Group: "example.dev", Version: "v1", Kind: "Backup"}
	for name, tc := range map[string]struct {
		opts backuptest.Options
		want []string
	}{
		"negative times":       {backuptest.Options{Latency: -1, BookmarkEvery: -1}, []string{"Options.Latency", "Options.BookmarkEvery"}},
		"resource in no group": {backuptest.Options{Resources: []backuptest.Resource{{Version: "v1", Kind: "Backup"}}}, []string{"Options.Resources[0]", "Group"}},
		"resource no version":  {backuptest.Options{Resources: []backuptest.Resource{{Group: "a.b", Kind: "Backup"}}}, []string{"Options.Resources[0]", "Version"}},
		"resource no kind":     {backuptest.Options{Resources: []backuptest.Resource{{Group: "a.b", Version: "v1"}}}, []string{"Kind"}},
		"empty resource":       {backuptest.Options{Latency: -1, Resources: []backuptest.Resource{good, {}}}, []string{"Latency", "Options.Resources[1]", "Kind", "Version", "Group"}},
		"resource twice":       {backuptest.Options{Resources: []backuptest.Resource{good, good}}, []string{"backups.example.dev", "already"}},
		"object of no kind":    {backuptest.Options{Objects: []runtime.Object{&unstructured.Unstructured{}}}, []string{"unknown kind"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := backuptest.Start(tc.opts)
			if err == nil {
				t.Fatal("Start = nil, want an error")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Start = %v, want it to say %q", err, want)
				}
			}
		})
	}
}

// recorder is a TB that notes what a test would suffer.
type recorder struct {
	fatal    string
	cleanups []func()
}

func (*recorder) Helper()                        {}
func (r *recorder) Cleanup(f func())             { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Fatalf(f string, args ...any) { r.fatal = fmt.Sprintf(f, args...) }

// B1: New only wires the end of a test.
func TestNew(t *testing.T) {
	t.Parallel()
	var tb recorder
	cluster := backuptest.New(&tb)
	if len(tb.cleanups) != 1 || tb.fatal != "" {
		t.Fatalf("New = %d cleanups, fatal %q, want one and none", len(tb.cleanups), tb.fatal)
	}
	core := kubernetes.NewForConfigOrDie(cluster.Config())
	if _, err := core.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	tb.cleanups[0]()
	if _, err := core.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{}); !isRefused(err) {
		t.Errorf("get after the test = %v, want connection refused", err)
	}
	if backuptest.New(&tb, backuptest.Options{Latency: -1}) != nil || !strings.Contains(tb.fatal, "Options.Latency") {
		t.Errorf("New with bad options: fatal %q, want it to name the field", tb.fatal)
	}
}

// B1: kinds of one's own are served as custom resources are: any field is kept, an update needs a version, the status
// is apart.
func TestOwnResources(t *testing.T) {
	t.Parallel()
	opts := backuptest.Options{
		Resources: []backuptest.Resource{{Group: "example.dev", Version: "v1", Kind: "Policy", Plural: "policies", Status: true}},
		Latency:   time.Second,
	}
	inBubble(t, opts, func(c clients) {
		t := c.t
		start := time.Now()
		policies := c.dynamic.Resource(schema.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "policies"})
		u := unstructuredObject("example.dev/v1", "Policy", "", "nightly")
		u.Object["spec"] = map[string]any{"keep": int64(3), "nested": map[string]any{"list": []any{1.5, "a", nil}}}
		u.Object["status"] = map[string]any{"phase": "New"}
		made, err := policies.Create(t.Context(), u, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(made.Object["spec"]) != fmt.Sprint(u.Object["spec"]) || made.Object["status"] != nil || made.GetGeneration() != 1 {
			t.Errorf("made = %v, want the spec as sent and no status", made.Object)
		}
		made.Object["status"] = map[string]any{"phase": "InProgress"}
		if made, err = policies.UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if phase, _, _ := unstructured.NestedString(made.Object, "status", "phase"); phase != "InProgress" || made.GetGeneration() != 1 {
			t.Errorf("after UpdateStatus: %v", made.Object)
		}
		if got := time.Since(start); got != 2*time.Second {
			t.Errorf("two requests took %v, want the latency of each", got)
		}
	})
}
