package csisnapshot_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// scriptedAPI is a dynamic client of an API whose objects cost nothing: lists make the page that they are asked for, and
// watches tell what the test says.
type scriptedAPI struct {
	dynamic.Interface

	snapshots, contents *scriptedResource
}

// newScriptedAPI has n snapshots and their contents, as they are made by object.
func newScriptedAPI(n int, snapshot, content func(i int) *unstructured.Unstructured) *scriptedAPI {
	return &scriptedAPI{
		snapshots: &scriptedResource{n: n, object: snapshot, events: make(chan watch.Event)},
		contents:  &scriptedResource{n: n, object: content, events: make(chan watch.Event)},
	}
}

func (a *scriptedAPI) Resource(r schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	if r.Resource == "volumesnapshots" {
		return a.snapshots
	}
	return a.contents
}

// scriptedResource is one resource. Only reads are answered.
type scriptedResource struct {
	dynamic.NamespaceableResourceInterface

	object func(i int) *unstructured.Unstructured
	events chan watch.Event // taken at once: nothing is kept here

	mu             sync.Mutex
	n              int
	lists, watches int
	names          map[string]int // made at the first Get
}

func (r *scriptedResource) Namespace(string) dynamic.ResourceInterface { return r }

func (r *scriptedResource) List(_ context.Context, opts metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	r.mu.Lock()
	r.lists++
	n := r.n
	r.mu.Unlock()
	from := 0
	if opts.Continue != "" {
		var err error
		if from, err = strconv.Atoi(opts.Continue); err != nil {
			return nil, err
		}
	}
	to := min(n, from+int(opts.Limit))
	list := &unstructured.UnstructuredList{}
	list.SetResourceVersion("1")
	for i := from; i < to; i++ {
		list.Items = append(list.Items, *r.object(i))
	}
	if to < n {
		list.SetContinue(strconv.Itoa(to))
	}
	return list, nil
}

func (r *scriptedResource) Get(_ context.Context, name string, _ metav1.GetOptions, _ ...string) (*unstructured.Unstructured, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.names); i < r.n; i++ {
		if r.names == nil {
			r.names = map[string]int{}
		}
		r.names[r.object(i).GetName()] = i
	}
	i, ok := r.names[name]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: "snapshot.storage.k8s.io"}, name)
	}
	return r.object(i), nil
}

func (r *scriptedResource) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watches++
	return scriptedWatch{r.events}, nil
}

// hold makes it hold the first n objects.
func (r *scriptedResource) hold(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n = n
}

func (r *scriptedResource) requests() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lists + r.watches
}

// tell sends an event of object i.
func (r *scriptedResource) tell(o *unstructured.Unstructured) {
	r.events <- watch.Event{Type: watch.Modified, Object: o}
}

type scriptedWatch struct{ events <-chan watch.Event }

func (w scriptedWatch) Stop()                          {}
func (w scriptedWatch) ResultChan() <-chan watch.Event { return w.events }

func scriptedUID(i int) types.UID {
	return backuptest.UIDOf("VolumeSnapshot", "app", strconv.Itoa(i))
}

// scriptedSnapshot is the plain snapshot of claim i, as its create has answered.
func scriptedSnapshot(i int) csisnapshot.Snapshot {
	claim := csisnapshot.ClaimRef{Namespace: "app", Name: "data-" + strconv.Itoa(i), UID: types.UID("claim-" + strconv.Itoa(i))}
	vs := fakeNames.NewSnapshot(fakeOwner, claim, "class")
	vs.UID, vs.ResourceVersion = scriptedUID(i), "1"
	return vs
}

// pickedUp is snapshot i as the controller has it after it made the content.
func pickedUp(i int) *unstructured.Unstructured {
	vs := scriptedSnapshot(i)
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
		"spec":   map[string]any{"source": map[string]any{"persistentVolumeClaimName": vs.Claim}, "volumeSnapshotClassName": "class"},
		"status": map[string]any{"readyToUse": false, "boundVolumeSnapshotContentName": csisnapshot.ContentName(vs.UID)},
	}}
	u.SetNamespace(vs.Namespace)
	u.SetName(vs.Name)
	u.SetUID(vs.UID)
	u.SetLabels(vs.Labels)
	u.SetAnnotations(vs.Annotations)
	u.SetFinalizers([]string{"snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection", "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection"})
	u.SetResourceVersion("2")
	return u
}

// finalized is snapshot i when the controller has done no more than to put its finalizers on it.
func finalized(i int) *unstructured.Unstructured {
	u := pickedUp(i)
	delete(u.Object, "status")
	return u
}

// begun is the content of snapshot i while its driver works on it.
func begun(i int) *unstructured.Unstructured {
	vs := scriptedSnapshot(i)
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
		"spec": map[string]any{
			"driver": backuptest.DefaultDriver, "deletionPolicy": "Delete", "source": map[string]any{"volumeHandle": "volume-" + strconv.Itoa(i)},
			"volumeSnapshotRef": map[string]any{"namespace": vs.Namespace, "name": vs.Name, "uid": string(vs.UID)},
		},
		"status": map[string]any{"readyToUse": false},
	}}
	u.SetName(csisnapshot.ContentName(vs.UID))
	u.SetUID(types.UID("content-" + strconv.Itoa(i)))
	u.SetFinalizers([]string{"snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection"})
	u.SetAnnotations(map[string]string{"snapshot.storage.kubernetes.io/volumesnapshot-being-created": "yes"})
	u.SetResourceVersion("2")
	return u
}

// made is the content of snapshot i when it is cut.
func made(i int) *unstructured.Unstructured {
	u := begun(i)
	u.SetResourceVersion("3")
	u.Object["status"] = map[string]any{"readyToUse": true, "snapshotHandle": "handle-" + strconv.Itoa(i)}
	return u
}

// scriptedWait is a waiter on a scripted API.
type scriptedWait struct {
	*csisnapshot.Waiter

	api  *scriptedAPI
	done chan error
}

// runScripted runs a waiter on an API that holds n snapshots that are never cut.
func runScripted(tb testing.TB, n int, opts csisnapshot.WaitOptions) *scriptedWait {
	tb.Helper()
	return runOn(tb, newScriptedAPI(n, pickedUp, begun), opts)
}

// runOn runs a waiter on the API.
func runOn(tb testing.TB, api *scriptedAPI, opts csisnapshot.WaitOptions) *scriptedWait {
	tb.Helper()
	w, err := csisnapshot.NewWaiter(csisnapshot.NewDynamic(api), opts, fakeOwner, fakeNames, []string{"app"})
	if err != nil {
		tb.Fatal(err)
	}
	s := &scriptedWait{Waiter: w, api: api, done: make(chan error, 1)}
	go func() { s.done <- w.Run(tb.Context()) }()
	<-w.Opened()
	return s
}

// addAll waits for n snapshots and tells that each was picked up and begun.
func (s *scriptedWait) addAll(n int) []*csisnapshot.Pending {
	pending := make([]*csisnapshot.Pending, 0, n)
	for i := range n {
		vs := scriptedSnapshot(i)
		pending = append(pending, s.Add(csisnapshot.Target{Snapshot: &vs, Driver: backuptest.DefaultDriver, Created: true}, csisnapshot.StageReady))
		s.api.snapshots.tell(pickedUp(i))
		s.api.contents.tell(begun(i))
	}
	return pending
}

// end drops what is waited for and ends the waiter.
func (s *scriptedWait) end(tb testing.TB, pending []*csisnapshot.Pending) {
	tb.Helper()
	for _, p := range pending {
		p.Drop()
	}
	s.Close()
	if err := <-s.done; err != nil {
		tb.Error(err)
	}
}

// scriptTimeout is longer than any test on a scripted API.
const scriptTimeout = 24 * time.Hour
