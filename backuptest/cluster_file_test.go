package backuptest_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

// B1: with a File, a new cluster has what the old one answered: UIDs, versions and all; watches from before get 410.
func TestFileKeepsState(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cluster.json")
	opts := backuptest.Options{File: path, Objects: []runtime.Object{configMap("given", nil)}}
	var before *corev1.ConfigMap
	inBubble(t, opts, func(c clients) {
		t := c.t
		before = created(t, c, "one")
		created(t, c, "gone")
		if err := c.core.CoreV1().ConfigMaps("app").Delete(t.Context(), "gone", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		label(t, c, "given", `{"metadata":{"labels":{"changed":"yes"}}}`)
	})
	inBubble(t, opts, func(c clients) {
		t := c.t
		maps := c.core.CoreV1().ConfigMaps("app")
		after, err := maps.Get(t.Context(), "one", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("object -before +after:\n%s", diff)
		}
		given, err := maps.Get(t.Context(), "given", metav1.GetOptions{})
		if err != nil || given.Labels["changed"] != "yes" {
			t.Errorf("given = %+v, %v, want it as it was changed, not as in Options", given, err)
		}
		if exists(t, c, "gone") {
			t.Error("a deleted object is back")
		}
		wantEvents(t, watched(t, c, metav1.ListOptions{ResourceVersion: before.ResourceVersion}), false, "ERROR 410")
		list, err := maps.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		w := watched(t, c, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		if next := created(t, c, "two"); len(next.ResourceVersion) < len(list.ResourceVersion) || next.ResourceVersion == list.ResourceVersion {
			t.Errorf("version of a new object = %s, want one after %s", next.ResourceVersion, list.ResourceVersion)
		}
		wantEvents(t, w, true, "ADDED two")
	})
	leftovers, err := filepath.Glob(path + ".*")
	if err != nil || len(leftovers) > 0 {
		t.Errorf("files beside = %v, %v, want none", leftovers, err)
	}
}

// B1: a change is in the file before it is answered, also when many are made at once.
func TestFileIsWrittenBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cluster.json")
	synctest.Test(t, func(t *testing.T) {
		c := newClients(t, backuptest.Options{File: path})
		var wg sync.WaitGroup
		for name := range strings.SplitSeq("abcdefghijklmnopqrst", "") {
			wg.Go(func() {
				m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m-" + name}}
				if _, err := c.core.CoreV1().ConfigMaps("default").Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
				raw, err := os.ReadFile(path)
				if err != nil || !json.Valid(raw) || !strings.Contains(string(raw), `"name":"m-`+name+`"`) {
					t.Errorf("file after the create of m-%s: %v, valid %v, want it in there", name, err, json.Valid(raw))
				}
			})
		}
		wg.Wait()
	})
}

// B1: a file that is no state of a cluster is an error that names it, and stays as it is.
func TestBrokenFile(t *testing.T) {
	t.Parallel()
	item := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"app","uid":"u","resourceVersion":"3"}}`
	list := func(version, items string) string {
		return `{"apiVersion":"v1","kind":"List","metadata":{"resourceVersion":"` + version + `"},"items":[` + items + `]}`
	}
	for name, tc := range map[string]struct{ text, want string }{
		"empty":          {"", "JSON"},
		"cut short":      {list("3", item)[:80], "JSON"},
		"another thing":  {`{"kind":"Pod"}`, "not a List"},
		"no items":       {`{"kind":"List","metadata":{"resourceVersion":"1"}}`, "no items"},
		"no object":      {list("3", "1"), "item 0"},
		"unknown kind":   {list("3", strings.Replace(item, "ConfigMap", "Mystery", 1)), "unknown kind"},
		"twice":          {list("3", item+","+item), "item 1: ConfigMap app/a: it is there twice"},
		"no UID":         {list("3", strings.Replace(item, `"uid":"u",`, "", 1)), "metadata.uid is empty"},
		"later version":  {list("2", item), `metadata.resourceVersion "3"`},
		"an illegal one": {list("3", strings.Replace(item, `"name":"a"`, `"name":"A"`, 1)), "metadata.name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "cluster.json")
			if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := backuptest.Start(backuptest.Options{File: path, Objects: []runtime.Object{configMap("given", nil)}})
			if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Start = %v, want an error with the path and %q", err, tc.want)
			}
			if kept, err := os.ReadFile(path); err != nil || string(kept) != tc.text {
				t.Errorf("file = %q, %v, want it untouched", kept, err)
			}
		})
	}
}

// B1: a file that cannot be written is an error of the request, which names it.
func TestUnwritableFile(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := backuptest.Start(backuptest.Options{File: dir}); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("Start with a directory = %v, want an error naming it", err)
	}
	c := newClients(t, backuptest.Options{File: filepath.Join(dir, "cluster.json")})
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	err := c.cluster.Add(configMap("one", nil))
	if err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("Add = %v, want an error naming the file", err)
	}
	_, err = c.core.CoreV1().ConfigMaps("app").Create(t.Context(), configMap("two", nil), metav1.CreateOptions{})
	if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), dir) {
		t.Errorf("create = %v, want InternalError naming the file", err)
	}
}
