package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/test/e2e/app"
	"github.com/sheetanchor/sheetanchor/test/e2e/driver"
	"github.com/sheetanchor/sheetanchor/test/e2e/stack"
)

// Someone deletes the definitions of the snapshot API while snapshots are waited for, and with them all snapshots: each ends with its own
// typed error, long before the timeout, whether the objects go at once or are held by finalizers. Once the definitions are there again the
// next backup succeeds. S8, X2, snap-18.
func testDefinitionsDeleted(t *testing.T) {
	t.Helper()
	t.Run("not-picked-up", func(t *testing.T) {
		must(t, cluster(t).Stack.Stop(within(t, bound), stack.SnapshotController))
		t.Cleanup(func() { start(t, stack.SnapshotController) })
		deleteDefinitions(t, func(*testing.T, *app.App) {})
	})
	t.Run("held", func(t *testing.T) {
		deleteDefinitions(t, func(t *testing.T, a *app.App) {
			t.Helper()
			_, err := cluster(t).Stack.Driver().WaitCalls(within(t, bound), driver.CallFilter{Method: "CreateSnapshot", Claim: a.Pattern()}, 2)
			must(t, err)
		})
	})
}

// deleteDefinitions cuts an application whose driver hangs, and deletes the definitions once the snapshots are as far as wanted.
func deleteDefinitions(t *testing.T, far func(*testing.T, *app.App)) {
	t.Helper()
	c := cluster(t)
	a := application(t, "definitions", app.Spec{Claims: app.Named("data", "wal")})
	must(t, c.Stack.Driver().SetScript(t.Context(), a.Pattern(), driver.Script{HangCreate: true}))
	const timeout = 2 * time.Minute
	snapshots := library(t, a, csisnapshot.Options{Wait: csisnapshot.WaitOptions{Timeout: timeout}})
	plan, err := snapshots.Plan(t.Context(), a.Namespace)
	must(t, err)
	mark, err := c.Stack.Audit().Mark()
	must(t, err)
	type result struct {
		report *csisnapshot.Report
		err    error
	}
	ended := make(chan result, 1)
	go func() {
		report, err := snapshots.Cut(within(t, bound), ownerOf(a, "nightly"), plan)
		ended <- result{report, err}
	}()
	must(t, wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, bound, true, func(context.Context) (bool, error) {
		counts, err := c.Stack.Audit().Counts(mark, a.User)
		return counts["create volumesnapshots"] == 2, err
	}))
	far(t, a)
	restore := removeDefinitions(t)
	began := time.Now()
	got := <-ended
	t.Logf("Cut ends %v after the deletion", time.Since(began).Round(time.Millisecond))
	must(t, got.err)
	for _, v := range got.report.Volumes {
		e, typed := errors.AsType[*csisnapshot.WaitError](v.Err)
		if !typed || !errors.Is(v.Err, csisnapshot.ErrDeleted) && !errors.Is(v.Err, csisnapshot.ErrForbidden) {
			t.Errorf("%s ends with %v, want a WaitError that says that it is deleted, or cannot be read any more", v.Claim, v.Err)
			continue
		}
		t.Logf("%s: %v", v.Claim, e)
	}
	if took := time.Since(began); took > timeout/2 {
		t.Errorf("it took %v to tell", took)
	}
	must(t, c.Stack.Driver().ClearScripts(t.Context(), a.Pattern()))
	restore()
	start(t, stack.SnapshotController)
	cut(t, snapshots, a, ownerOf(a, "again"))
}

// removeDefinitions deletes the definitions of snapshots and contents. The function that it returns waits until they are gone, and
// makes them again.
func removeDefinitions(t *testing.T) (restore func()) {
	t.Helper()
	objects, _ := clients(t, stack.Admin)
	definitions := objects.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	var saved []*unstructured.Unstructured
	for _, resource := range []string{"volumesnapshots", "volumesnapshotcontents"} {
		name := resource + ".snapshot.storage.k8s.io"
		definition, err := definitions.Get(t.Context(), name, metav1.GetOptions{})
		must(t, err)
		fresh := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": definition.GetAPIVersion(), "kind": definition.GetKind(), "spec": definition.Object["spec"],
		}}
		fresh.SetName(name)
		fresh.SetAnnotations(definition.GetAnnotations())
		saved = append(saved, fresh)
		must(t, definitions.Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
	return func() {
		contents := objects.Resource(snapshotv1.SchemeGroupVersion.WithResource("volumesnapshotcontents"))
		for _, definition := range saved {
			awaitDefinition(t, definitions, definition.GetName(), false, func() { touch(t, contents) })
		}
		for _, definition := range saved {
			_, err := definitions.Create(t.Context(), definition, metav1.CreateOptions{})
			must(t, err)
			awaitDefinition(t, definitions, definition.GetName(), true, func() {})
		}
	}
}

// touch changes all contents: one that is deleted while its snapshot is made is often forgotten by the sidecar until it changes.
func touch(t *testing.T, contents dynamic.ResourceInterface) {
	t.Helper()
	all, err := contents.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Logf("list contents: %v", err) // their definition is gone
		return
	}
	for _, content := range all.Items {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"e2e.sheetanchor.io/touched":%q}}}`, time.Now().Format(time.RFC3339Nano))
		if _, err := contents.Patch(t.Context(), content.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Logf("touch %s: %v", content.GetName(), err) // it is gone
		}
	}
}

// awaitDefinition waits until a definition is established, or gone, and does something each time before it looks.
func awaitDefinition(t *testing.T, definitions dynamic.ResourceInterface, name string, there bool, do func()) {
	t.Helper()
	must(t, wait.PollUntilContextTimeout(t.Context(), time.Second, bound, true, func(ctx context.Context) (bool, error) {
		do()
		definition, err := definitions.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return !there, nil
		}
		if err != nil {
			return false, err
		}
		conditions, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions") // null at first
		for _, condition := range conditions {
			if c, ok := condition.(map[string]any); ok && c["type"] == "Established" && c["status"] == "True" {
				return there, nil
			}
		}
		return false, nil
	}))
}
