package backuptest_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

var (
	snapshotsGVR = schema.GroupVersionResource{Group: "snapshot.storage.k8s.io", Version: "v1", Resource: "volumesnapshots"}
	contentsGVR  = schema.GroupVersionResource{Group: "snapshot.storage.k8s.io", Version: "v1", Resource: "volumesnapshotcontents"}
	classesGVR   = schema.GroupVersionResource{Group: "snapshot.storage.k8s.io", Version: "v1", Resource: "volumesnapshotclasses"}
	claimsGVR    = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
	eventsGVR    = schema.GroupVersionResource{Version: "v1", Resource: "events"}
)

// lab is a cluster with a controller on it, and a record of every state its snapshots and contents went through.
type lab struct {
	t       *testing.T
	client  dynamic.Interface
	driver  *backuptest.Driver
	cluster *backuptest.Cluster
	start   time.Time

	mu     sync.Mutex
	states map[string][]state // by "vs NAME" and "vsc NAME of the snapshot"
	stop   context.CancelFunc
	all    sync.WaitGroup
}

type state struct {
	text string
	at   time.Duration
}

// newLab must be called inside a bubble.
func newLab(t *testing.T, builders ...backuptest.Builder) *lab {
	t.Helper()
	cluster := backuptest.New(t, backuptest.Options{Objects: backuptest.Objects(builders...)})
	client, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{
		t: t, client: client, cluster: cluster, driver: backuptest.NewDriver(backuptest.DriverOptions{}),
		start: time.Now(), states: map[string][]state{},
	}
	ctx, stop := context.WithCancel(t.Context())
	l.stop = stop
	t.Cleanup(l.close)
	l.record(ctx, snapshotsGVR)
	l.record(ctx, contentsGVR)
	return l
}

func (l *lab) close() {
	l.stop()
	l.all.Wait()
}

// run starts a controller, and returns a function that stops it and waits for its end.
func (l *lab) run(opts backuptest.ControllerOptions) (stop func()) {
	return l.runController(backuptest.NewSnapshotController(l.client, l.driver, opts))
}

func (l *lab) runController(controller *backuptest.SnapshotController) (stop func()) {
	ctx, cancel := context.WithCancel(l.t.Context())
	ended := make(chan error, 1)
	l.all.Go(func() { ended <- controller.Run(ctx) })
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			l.t.Errorf("Run = %v, want nil at the end of its ctx", err)
		}
	})
	l.t.Cleanup(stop)
	return stop
}

// take creates a snapshot of a claim of namespace app.
func (l *lab) take(name, claim, class string) *unstructured.Unstructured {
	l.t.Helper()
	vs := backuptest.Snapshot{Namespace: "app", Name: name, Claim: claim, State: backuptest.SnapshotCreated, Class: class}.VS()
	if class == "" {
		unstructured.RemoveNestedField(vs.Object, "spec", "volumeSnapshotClassName")
	}
	vs.SetUID("")
	created, err := l.client.Resource(snapshotsGVR).Namespace("app").Create(l.t.Context(), vs, metav1.CreateOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	return created
}

func (l *lab) get(gvr schema.GroupVersionResource, namespace, name string) *unstructured.Unstructured {
	l.t.Helper()
	object, err := l.client.Resource(gvr).Namespace(namespace).Get(l.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	return object
}

func (l *lab) delete(gvr schema.GroupVersionResource, namespace, name string) {
	l.t.Helper()
	if err := l.client.Resource(gvr).Namespace(namespace).Delete(l.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		l.t.Fatal(err)
	}
}

// wait lets virtual time pass.
func (l *lab) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// path returns the states of an object, without those that some replacement makes equal to the one before.
func (l *lab) path(object string, drop ...string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var path []string
	for _, s := range l.states[object] {
		words := slices.DeleteFunc(strings.Fields(s.text), func(word string) bool { return slices.Contains(drop, word) })
		path = append(path, strings.Join(words, " "))
	}
	return slices.Compact(path)
}

func (l *lab) count(object string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.states[object])
}

// when returns how long after the start the object was first seen with all those words.
func (l *lab) when(object string, words ...string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.states[object] {
		if has := strings.Fields(s.text); !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(has, w) }) {
			return s.at
		}
	}
	l.t.Errorf("%s never was %v; states %v", object, words, l.states[object])
	return -1
}

func (l *lab) reasons(namespace string) []string {
	l.t.Helper()
	list, err := l.client.Resource(eventsGVR).Namespace(namespace).List(l.t.Context(), metav1.ListOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	var reasons []string
	for _, event := range list.Items {
		kind, _, _ := unstructured.NestedString(event.Object, "type")
		reason, _, _ := unstructured.NestedString(event.Object, "reason")
		reasons = append(reasons, kind+" "+reason)
	}
	slices.Sort(reasons)
	return reasons
}

func (l *lab) record(ctx context.Context, gvr schema.GroupVersionResource) {
	list, err := l.client.Resource(gvr).List(ctx, metav1.ListOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	w, err := l.client.Resource(gvr).Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		l.t.Fatal(err)
	}
	l.all.Go(func() {
		defer w.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case event, open := <-w.ResultChan():
				if !open {
					return
				}
				l.note(event)
			}
		}
	})
}

func (l *lab) note(event watch.Event) {
	object, ok := event.Object.(*unstructured.Unstructured)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	key := "vs " + object.GetName()
	text := describeSnapshot(object)
	if object.GetKind() == "VolumeSnapshotContent" {
		name, _, _ := unstructured.NestedString(object.Object, "spec", "volumeSnapshotRef", "name")
		key, text = "vsc "+name, describeContent(object)
	}
	if event.Type == watch.Deleted {
		text = "gone"
	}
	l.states[key] = append(l.states[key], state{text: text, at: time.Since(l.start)})
}

func describeSnapshot(vs *unstructured.Unstructured) string {
	words := finalizerWords(vs)
	status, found, _ := unstructured.NestedMap(vs.Object, "status")
	if !found {
		return strings.Join(append(words, "no-status"), " ")
	}
	for field, word := range map[string]string{"boundVolumeSnapshotContentName": "bound", "creationTime": "cut", "restoreSize": "size"} {
		if status[field] != nil {
			words = append(words, word)
		}
	}
	return strings.Join(statusWords(words, status), " ")
}

func describeContent(vsc *unstructured.Unstructured) string {
	words := finalizerWords(vsc)
	for name, value := range vsc.GetAnnotations() {
		words = append(words, name[strings.LastIndex(name, "volumesnapshot-")+len("volumesnapshot-"):]+":"+value)
	}
	status, found, _ := unstructured.NestedMap(vsc.Object, "status")
	if !found {
		return strings.Join(sorted(append(words, "no-status")), " ")
	}
	for field, word := range map[string]string{"snapshotHandle": "handle", "creationTime": "cut", "restoreSize": "size"} {
		if status[field] != nil {
			words = append(words, word)
		}
	}
	return strings.Join(statusWords(words, status), " ")
}

func finalizerWords(object *unstructured.Unstructured) []string {
	var words []string
	for _, f := range object.GetFinalizers() {
		words = append(words, "fin:"+strings.TrimPrefix(f, "snapshot.storage.kubernetes.io/"))
	}
	if object.GetDeletionTimestamp() != nil {
		words = append(words, "deleting")
	}
	return words
}

func statusWords(words []string, status map[string]any) []string {
	switch status["readyToUse"] {
	case true:
		words = append(words, "ready")
	case false:
		words = append(words, "unready")
	}
	if status["error"] != nil {
		words = append(words, "error")
	}
	return sorted(words)
}

func sorted(words []string) []string {
	slices.Sort(words)
	return words
}

const (
	finSource  = "fin:volumesnapshot-as-source-protection"
	finBound   = "fin:volumesnapshot-bound-protection"
	finContent = "fin:volumesnapshotcontent-bound-protection"
)

func errorText(object *unstructured.Unstructured) string {
	text, _, _ := unstructured.NestedString(object.Object, "status", "error", "message")
	return text
}

func claimAndClass() []backuptest.Builder {
	return []backuptest.Builder{backuptest.Claim{Namespace: "app", Name: "data"}, backuptest.SnapshotClass{}}
}
