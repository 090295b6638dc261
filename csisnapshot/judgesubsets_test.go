package csisnapshot_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/kubernetes-csi/external-snapshotter/client/v6/apis/volumesnapshot/v1"
	fakev6 "github.com/kubernetes-csi/external-snapshotter/client/v6/clientset/versioned/fake"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/csisnapshot/snapv6"
)

// wholeSnapshot and wholeContent are objects with every field that the API has for us, by path.
var (
	wholeSnapshot = map[string]any{
		"metadata.uid": string(judgeUID), "metadata.resourceVersion": "7", "metadata.deletionTimestamp": "2026-01-01T12:00:00Z",
		"metadata.finalizers":                   []any{"snapshot.storage.kubernetes.io/volumesnapshot-bound-protection"},
		"spec.source.persistentVolumeClaimName": "data", "spec.volumeSnapshotClassName": "fast",
		"status.boundVolumeSnapshotContentName": "snapcontent-uid-1", "status.creationTime": "2026-01-01T12:00:00Z",
		"status.readyToUse": true, "status.restoreSize": "1Gi", "status.error.message": invalid, "status.error.time": "2026-01-01T12:00:00Z",
	}
	wholeContent = map[string]any{
		"metadata.uid": "content-1", "metadata.annotations": map[string]any{"snapshot.storage.kubernetes.io/volumesnapshot-being-created": "yes"},
		"spec.volumeSnapshotRef.uid": string(judgeUID), "spec.volumeSnapshotRef.name": "snap", "spec.volumeSnapshotRef.namespace": "app",
		"spec.driver": "csi.example.dev", "spec.source.volumeHandle": "v", "status.snapshotHandle": "h", "status.creationTime": int64(1767268800000000001),
		"status.readyToUse": true, "status.restoreSize": int64(1 << 30), "status.error.message": invalid, "status.error.time": "2026-01-01T12:00:00Z",
	}
)

// subset is the object with those fields of whole whose bit is set, as a server would send it.
func subset(kind, namespace, name string, whole map[string]any, bits int) map[string]any {
	object := map[string]any{
		"apiVersion": "snapshot.storage.k8s.io/v1", "kind": kind,
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"source": map[string]any{}},
	}
	if namespace != "" {
		object["metadata"].(map[string]any)["namespace"] = namespace
	}
	for i, path := range slices.Sorted(maps.Keys(whole)) {
		if bits&(1<<i) == 0 {
			continue
		}
		at, parts := object, strings.Split(path, ".")
		for _, part := range parts[:len(parts)-1] {
			next, ok := at[part].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[part] = next
			}
			at = next
		}
		at[parts[len(parts)-1]] = whole[path]
	}
	return object
}

// decoder reads an object as an adapter does.
type decoder func(t *testing.T, object map[string]any) (*csisnapshot.Snapshot, *csisnapshot.Content)

// newDecoder reads through one client of the adapter, whatever the number of objects.
func newDecoder(adapter string) decoder {
	var answer runtime.Object
	get := func(clienttesting.Action) (bool, runtime.Object, error) { return true, answer, nil }
	if adapter == "dynamic" {
		bare := fake.NewSimpleDynamicClient(runtime.NewScheme())
		bare.PrependReactor("get", "*", get)
		client := csisnapshot.NewDynamic(bare)
		return func(t *testing.T, object map[string]any) (*csisnapshot.Snapshot, *csisnapshot.Content) {
			t.Helper()
			defer bare.ClearActions()
			answer = &unstructured.Unstructured{Object: object}
			return readBack(t, client, object)
		}
	}
	bare := fakev6.NewSimpleClientset()
	bare.PrependReactor("get", "*", get)
	client := snapv6.New(bare)
	return func(t *testing.T, object map[string]any) (*csisnapshot.Snapshot, *csisnapshot.Content) {
		t.Helper()
		defer bare.ClearActions()
		answer = &v1.VolumeSnapshot{}
		if object["kind"] != "VolumeSnapshot" {
			answer = &v1.VolumeSnapshotContent{}
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, answer); err != nil {
			t.Fatal(err)
		}
		return readBack(t, client, object)
	}
}

// readBack reads the one object that the client has.
func readBack(t *testing.T, client csisnapshot.Client, object map[string]any) (*csisnapshot.Snapshot, *csisnapshot.Content) {
	t.Helper()
	if object["kind"] == "VolumeSnapshot" {
		got, err := client.Snapshots().Get(t.Context(), "app", "snap")
		if err != nil {
			t.Fatal(err)
		}
		return &got, nil
	}
	got, err := client.Contents().Get(t.Context(), "", "snapcontent-uid-1")
	if err != nil {
		t.Fatal(err)
	}
	return nil, &got
}

// decodedSubsets are all subsets of the two objects as an adapter reads them; nil stands for no object.
func decodedSubsets(t *testing.T, adapter string) (snapshots []*csisnapshot.Snapshot, contents []*csisnapshot.Content) {
	t.Helper()
	decode := newDecoder(adapter)
	for bits := range 1 << len(wholeSnapshot) {
		s, _ := decode(t, subset("VolumeSnapshot", "app", "snap", wholeSnapshot, bits))
		snapshots = append(snapshots, s)
	}
	for bits := range 1 << len(wholeContent) {
		_, c := decode(t, subset("VolumeSnapshotContent", "", "snapcontent-uid-1", wholeContent, bits))
		contents = append(contents, c)
	}
	return snapshots, contents
}

func TestJudgeOverEverySubsetOfFields(t *testing.T) {
	t.Parallel()
	// snap-14 snap-16 S2 S8: each of the 4096 and 8192 subsets of the fields of a snapshot and a content, read through an adapter,
	// is judged by S2's table beside objects with few, half and all of theirs; nothing panics, and nothing is read that is absent.
	final := csisnapshot.FinalCodes("InvalidArgument")
	fresh := csisnapshot.NewState(judgeTarget())
	was := csisnapshot.Judge(fresh, csisnapshot.Look{Snapshot: vs(), Content: vsc(vscHandle("first")), Now: noon})
	snapshots, contents := decodedSubsets(t, "dynamic")
	check := func(s *csisnapshot.Snapshot, c *csisnapshot.Content) {
		t.Helper()
		for _, before := range []csisnapshot.State{fresh, was} {
			got := csisnapshot.Judge(before, csisnapshot.Look{Snapshot: s, Content: c, Classifier: final, Now: noon.Add(time.Minute)})
			if msg := against(before, s, c, got); msg != "" {
				t.Fatalf("before cut %v, snapshot %+v, content %+v: %s; got %+v", before.Cut, s, c, msg, got)
			}
			if final := errors.Is(got.End, csisnapshot.ErrFinal); final && got.LastError != invalid {
				t.Fatalf("final without the error: snapshot %+v, content %+v", s, c)
			}
		}
	}
	for i, s := range snapshots {
		for _, c := range []*csisnapshot.Content{nil, contents[0], contents[i], contents[len(contents)/2], contents[len(contents)-1]} {
			check(s, c)
		}
	}
	for i, c := range contents {
		for _, s := range []*csisnapshot.Snapshot{nil, snapshots[0], snapshots[i%len(snapshots)], snapshots[len(snapshots)/2], snapshots[len(snapshots)-1]} {
			check(s, c)
		}
	}
}

func TestAdaptersReadEverySubsetAlike(t *testing.T) {
	t.Parallel()
	// S8 S1: the adapters read the same of an object with any subset of the fields of its status, and nothing of absent ones.
	viaDynamic, viaV6 := newDecoder("dynamic"), newDecoder("snapv6")
	for kind, whole := range map[string]map[string]any{"VolumeSnapshot": wholeSnapshot, "VolumeSnapshotContent": wholeContent} {
		namespace, name := "app", "snap"
		if kind == "VolumeSnapshotContent" {
			namespace, name = "", "snapcontent-uid-1"
		}
		paths := slices.Sorted(maps.Keys(whole))
		for bits := 0; bits < 1<<len(paths); bits += 7 { // a step that leaves no pair of fields out
			object := subset(kind, namespace, name, whole, bits)
			s1, c1 := viaDynamic(t, object)
			s2, c2 := viaV6(t, object)
			if diff := cmp.Diff(s1, s2) + cmp.Diff(c1, c2); diff != "" {
				t.Fatalf("%v: %s", object, diff)
			}
		}
	}
}
