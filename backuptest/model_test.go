package backuptest_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

const modelFinalizer = "example.dev/hold"

// model is the plainest server of config maps there can be.
type model map[string]modelObject

type modelObject struct {
	value        string
	held, ending bool
}

// step does the same random thing to the model and to the server and compares what both say about it.
func (m model) step(t *testing.T, rng *rand.Rand, c clients) {
	t.Helper()
	maps := c.core.CoreV1().ConfigMaps("app")
	name, value := fmt.Sprintf("m-%d", rng.IntN(6)), fmt.Sprint(rng.IntN(4))
	old, exists := m[name]
	var err error
	wanted := func(error) bool { return false }
	switch rng.IntN(5) {
	case 0:
		held := rng.IntN(2) == 0
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"v": value}}
		if held {
			o.Finalizers = []string{modelFinalizer}
		}
		_, err = maps.Create(t.Context(), o, metav1.CreateOptions{})
		if exists {
			wanted = apierrors.IsAlreadyExists
		} else {
			m[name] = modelObject{value: value, held: held}
		}
	case 1:
		_, err = maps.Patch(t.Context(), name, types.MergePatchType, fmt.Appendf(nil, `{"data":{"v":%q}}`, value), metav1.PatchOptions{})
		old.value = value
		wanted = m.keep(name, old, exists)
	case 2:
		err = maps.Delete(t.Context(), name, metav1.DeleteOptions{})
		old.ending = true
		wanted = m.keep(name, old, exists)
	case 3:
		_, err = maps.Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		old.held = false
		wanted = m.keep(name, old, exists)
	case 4:
		stale := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("another")}
		err = maps.Delete(t.Context(), name, stale)
		if wanted = apierrors.IsConflict; !exists {
			wanted = apierrors.IsNotFound
		}
	}
	if (err != nil) != wanted(err) {
		t.Fatalf("%s: %v, with %+v (exists %v) before", name, err, old, exists)
	}
}

// keep stores what became of an object and says what a server that lacks it answers.
func (m model) keep(name string, o modelObject, exists bool) func(error) bool {
	if !exists {
		return apierrors.IsNotFound
	}
	if m[name] = o; o.ending && !o.held {
		delete(m, name)
	}
	return func(error) bool { return false }
}

func modelOf(objects []corev1.ConfigMap) model {
	m := model{}
	for _, o := range objects {
		m[o.Name] = modelObject{value: o.Data["v"], held: len(o.Finalizers) > 0, ending: o.DeletionTimestamp != nil}
	}
	return m
}

// B1: over random histories the server's objects are those of a plain map, at every version it can still list; replaying
// a watch from the first version gives them too.
func TestModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			inBubble(t, backuptest.Options{}, func(c clients) {
				t := c.t
				rng := rand.New(rand.NewPCG(seed, 1))
				maps := c.core.CoreV1().ConfigMaps("app")
				first, err := maps.List(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				past := map[string]model{}
				m := model{}
				for range 80 {
					m.step(t, rng, c)
					list, err := maps.List(t.Context(), metav1.ListOptions{})
					if err != nil {
						t.Fatal(err)
					}
					past[list.ResourceVersion] = modelOf(list.Items)
					if diff := cmp.Diff(m, modelOf(list.Items), cmp.AllowUnexported(modelObject{})); diff != "" {
						t.Fatalf("-model +server:\n%s", diff)
					}
				}
				for version, want := range past {
					list, err := maps.List(t.Context(), metav1.ListOptions{ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(want, modelOf(list.Items), cmp.AllowUnexported(modelObject{})); diff != "" {
						t.Errorf("at %s -then +now:\n%s", version, diff)
					}
				}
				if diff := cmp.Diff(m, replayed(t, c, first.ResourceVersion), cmp.AllowUnexported(modelObject{})); diff != "" {
					t.Errorf("replayed watch -model +watch:\n%s", diff)
				}
			})
		})
	}
}

// replayed builds the objects from the events of a watch.
func replayed(t *testing.T, c clients, version string) model {
	t.Helper()
	w := watched(t, c, metav1.ListOptions{ResourceVersion: version})
	end := created(t, c, "end")
	objects := map[string]corev1.ConfigMap{}
	for e := range w.ResultChan() {
		o, ok := e.Object.(*corev1.ConfigMap)
		if !ok {
			t.Fatalf("event %v", e)
		}
		_, known := objects[o.Name]
		if known != (e.Type != watch.Added) {
			t.Errorf("%s of %s, known %v", e.Type, o.Name, known)
		}
		if o.ResourceVersion == end.ResourceVersion {
			break
		}
		if objects[o.Name] = *o; e.Type == watch.Deleted {
			delete(objects, o.Name)
		}
	}
	list := make([]corev1.ConfigMap, 0, len(objects))
	for _, o := range objects {
		list = append(list, o)
	}
	return modelOf(list)
}
