package csisnapshot_test

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/operations"
)

func TestRemoveOnBareFakes(t *testing.T) {
	t.Parallel()
	// B4: actions, Release and Destroy work on the generated fakes, which have no finalizers and delete at once.
	for name, newFake := range fakes {
		for _, policy := range []csisnapshot.DeletionPolicy{csisnapshot.DeletionPolicyRetain, csisnapshot.DeletionPolicyDelete} {
			t.Run(name+"/"+string(policy), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { removeOnFake(t, newFake(), policy) })
			})
		}
	}
}

func removeOnFake(t *testing.T, f fakeControl, policy csisnapshot.DeletionPolicy) {
	t.Helper()
	s, err := csisnapshot.New(fake.NewClientset(), f.client, csisnapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var refs []csisnapshot.Ref
	var ids []string
	for n := range 2 {
		vs, err := f.client.Snapshots().Create(t.Context(), fakeObject(n))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.cut(t.Context(), vs); err != nil {
			t.Fatal(err)
		}
		if err := f.ready(t.Context(), vs); err != nil {
			t.Fatal(err)
		}
		refs, ids = append(refs, vs.Ref()), append(ids, csisnapshot.OperationID(vs.Ref(), time.Now()))
	}
	answers, err := s.Action().ProgressMany(t.Context(), ids)
	for _, id := range ids {
		if err != nil || answers[id].Progress.State != operations.StateCompleted {
			t.Errorf("%s: %+v, %v", id, answers[id], err)
		}
	}
	remove := s.Release
	if policy == csisnapshot.DeletionPolicyDelete {
		remove = s.Destroy
	}
	start := time.Now()
	report, err := remove(t.Context(), fakeOwner, refs...)
	if err != nil || len(report.Items) != 2 || time.Since(start) > 10*time.Second {
		t.Fatalf("after %v: %+v, %v", time.Since(start), report, err)
	}
	for _, item := range report.Items {
		if !item.Gone || item.Handle != "handle-"+item.Ref.Name {
			t.Errorf("item %+v", item)
		}
	}
	snapshots, err := f.client.Snapshots().List(t.Context(), "app", csisnapshot.ListOptions{})
	if err != nil || len(snapshots.Items) != 0 {
		t.Errorf("%d snapshots left, %v", len(snapshots.Items), err)
	}
	contents, err := f.client.Contents().List(t.Context(), "", csisnapshot.ListOptions{})
	if err != nil || len(contents.Items) != 0 {
		t.Errorf("%d contents left, %v", len(contents.Items), err)
	}
	if _, err := remove(t.Context(), fakeOwner, refs...); err != nil {
		t.Errorf("again: %v", err)
	}
}
