package phasekube_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/phase"
	"github.com/sheetanchor/sheetanchor/phase/phasekube"
)

func leases(t *testing.T) (*backuptest.Cluster, coordinationclient.CoordinationV1Interface) {
	t.Helper()
	cluster := backuptest.New(t, backuptest.Options{Objects: []runtime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "app"}}}})
	return cluster, kubernetes.NewForConfigOrDie(cluster.Config()).CoordinationV1()
}

func newLease(t *testing.T, client coordinationclient.LeasesGetter, opts phasekube.LeaseOptions) *phasekube.Lease {
	t.Helper()
	lease, err := phasekube.NewLease(client, "app", "operator", opts)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// put stores the Lease as another process left it.
func put(t *testing.T, client coordinationclient.LeasesGetter, spec coordinationv1.LeaseSpec) {
	t.Helper()
	have, err := client.Leases("app").Get(t.Context(), "operator", metav1.GetOptions{})
	if err != nil {
		have = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: "operator"}, Spec: spec}
		if _, err = client.Leases("app").Create(t.Context(), have, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		return
	}
	have.Spec = spec
	if _, err := client.Leases("app").Update(t.Context(), have, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func held(by string, renewed time.Time) coordinationv1.LeaseSpec {
	return coordinationv1.LeaseSpec{
		HolderIdentity: &by, LeaseDurationSeconds: new(int32(15)), RenewTime: new(metav1.NewMicroTime(renewed)),
		AcquireTime: new(metav1.NewMicroTime(renewed.Add(-time.Hour))), LeaseTransitions: new(int32(3)),
	}
}

// P4: phase-6: an owner is dead when that is proved by what this process saw, whatever the clocks of others say.
func TestHeartbeatOfALease(t *testing.T) {
	t.Parallel()
	type step struct {
		after time.Duration
		spec  *coordinationv1.LeaseSpec // what the holder writes then; nil: nothing
		gone  bool                      // the Lease is deleted
		want  phase.Life
	}
	spec := func(by string, skew time.Duration) *coordinationv1.LeaseSpec {
		return new(held(by, time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(skew)))
	}
	silent := coordinationv1.LeaseSpec{HolderIdentity: new("replica-0")}
	tests := map[string]struct {
		reason string
		steps  []step
	}{
		"it is renewed": {"it lives", []step{
			{0, spec("replica-0", 0), false, phase.Live},
			{14 * time.Second, spec("replica-0", 14*time.Second), false, phase.Live},
			{14 * time.Second, spec("replica-0", 28*time.Second), false, phase.Live},
		}},
		"it is silent": {"dead after the whole duration, not before", []step{
			{0, spec("replica-0", 0), false, phase.Live}, {15 * time.Second, nil, false, phase.Live}, {time.Second, nil, false, phase.Dead},
		}},
		"its clock is a day behind": {"what it wrote is old, and it lives", []step{
			{0, spec("replica-0", -24*time.Hour), false, phase.Live}, {10 * time.Second, spec("replica-0", -23*time.Hour), false, phase.Live},
		}},
		"its clock is a day ahead": {"what it wrote is in the future, and it is dead", []step{
			{0, spec("replica-0", 24*time.Hour), false, phase.Live}, {16 * time.Second, nil, false, phase.Dead},
		}},
		"somebody else holds it": {"it had to stop before", []step{{0, spec("replica-9", 0), false, phase.Dead}}},
		"it was given back":      {"its work has returned", []step{{0, spec("", 0), false, phase.Dead}}},
		"taken over and back": {"a new sign of life counts anew", []step{
			{0, spec("replica-0", 0), false, phase.Live},
			{16 * time.Second, spec("replica-9", 0), false, phase.Dead},
			{16 * time.Second, spec("replica-0", time.Minute), false, phase.Live},
		}},
		"there is no Lease": {"who lives makes it again", []step{
			{0, nil, false, phase.Live}, {15 * time.Second, nil, false, phase.Live}, {time.Second, nil, false, phase.Dead},
		}},
		"somebody deleted it": {"who lives makes it again", []step{
			{0, spec("replica-0", 0), false, phase.Live}, {16 * time.Second, nil, true, phase.Live}, {16 * time.Second, nil, false, phase.Dead},
		}},
		"it says no duration": {"ours counts then", []step{{0, &silent, false, phase.Live}, {16 * time.Second, nil, false, phase.Dead}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				_, client := leases(t)
				lease := newLease(t, client, phasekube.LeaseOptions{})
				for i, step := range tc.steps {
					time.Sleep(step.after)
					if step.spec != nil {
						put(t, client, *step.spec)
					}
					if step.gone {
						if err := client.Leases("app").Delete(t.Context(), "operator", metav1.DeleteOptions{}); err != nil {
							t.Fatal(err)
						}
					}
					beat, err := lease.Heartbeat(t.Context(), "replica-0")
					if err != nil {
						t.Fatal(err)
					}
					if got := beat.Life(time.Now(), 0); got != step.want {
						t.Errorf("step %d: %+v is %v, want %v: %s", i, beat, got, step.want, tc.reason)
					}
				}
			})
		})
	}
}

// X6: all-8: a start-up that finds many objects costs two reads for each that somebody else works on, and one for the others.
func TestRequestsOfRecover(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		data := map[string]map[string]string{
			"new": nil, "ended": {"phase": phase.Completed, "owner": "replica-0"}, "mine": {"phase": phase.InProgress, "owner": "replica-1"},
			"theirs": {"phase": phase.InProgress, "owner": "replica-0"}, "theirs-2": {"phase": phase.Finalizing, "owner": "replica-0"},
		}
		objects := []runtime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "app"}}}
		for name, data := range data {
			objects = append(objects, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: name}, Data: data})
		}
		cluster := backuptest.New(t, backuptest.Options{Objects: objects})
		lease := newLease(t, kubernetes.NewForConfigOrDie(cluster.Config()).CoordinationV1(), phasekube.LeaseOptions{})
		client := dynamic.NewForConfigOrDie(cluster.Config())
		for name := range data {
			a, err := phase.NewApplier(phase.Backup[myPhase](), phasekube.NewConfigMap[myPhase](client, "app", name), phase.ApplierOptions[myPhase]{Owner: "replica-1"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := a.Recover(t.Context(), lease); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(map[string]int{"get configmaps": 5, "get leases": 2}, cluster.Requests()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

// P4: a Lease that cannot be read proves nothing; the error is of the usual categories.
func TestHeartbeatErrors(t *testing.T) {
	t.Parallel()
	cluster, client := leases(t)
	lease := newLease(t, client, phasekube.LeaseOptions{})
	remove := cluster.Fault(backuptest.Fault{Resource: "leases", Code: http.StatusForbidden})
	if _, err := lease.Heartbeat(t.Context(), "replica-0"); !errors.Is(err, phase.ErrForbidden) || !strings.Contains(err.Error(), "app/operator") {
		t.Errorf("Heartbeat = %v, want ErrForbidden that names the lease", err)
	}
	remove()
	cluster.Fault(backuptest.Fault{Resource: "leases", Action: backuptest.FaultRefuse})
	if _, err := lease.Read(t.Context()); !phase.IsTransient(err) {
		t.Errorf("Read = %v, want a transient error", err)
	}
}

func TestReadLease(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset().CoordinationV1() // B4: the bare fake
	lease := newLease(t, client, phasekube.LeaseOptions{})
	if got, err := lease.Read(t.Context()); err != nil || got != (phasekube.Holder{}) {
		t.Errorf("Read of no Lease = %+v, %v, want the zero Holder", got, err)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	put(t, client, held("replica-0", now))
	want := phasekube.Holder{Identity: "replica-0", Renewed: now, Acquired: now.Add(-time.Hour), Duration: 15 * time.Second, Transitions: 3}
	if got, err := lease.Read(t.Context()); err != nil || got != want {
		t.Errorf("Read = %+v, %v, want %+v", got, err, want)
	}
}

// P4: X5: the second replica takes over the work of the first when it holds the lease, and not before.
func TestRecoverWithALease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster, objects := newCluster(t)
		client := kubernetes.NewForConfigOrDie(cluster.Config()).CoordinationV1()
		start := func(owner string) *phase.Applier[myPhase] {
			a, err := phase.NewApplier(phase.Backup[myPhase](), phasekube.NewConfigMap[myPhase](objects, "app", "run-1"),
				phase.ApplierOptions[myPhase]{Owner: owner})
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		put(t, client, held("replica-0", time.Now()))
		first := start("replica-0")
		state, err := first.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err = first.Apply(t.Context(), state, phase.EventStart, ""); err != nil {
			t.Fatal(err)
		}
		second, lease := start("replica-1"), newLease(t, client, phasekube.LeaseOptions{})
		recovery, err := second.Recover(t.Context(), lease)
		if err != nil || recovery.Mine || recovery.Action != phase.ActionLeave {
			t.Fatalf("Recover while the owner lives = %+v, %v, want it left", recovery, err)
		}
		put(t, client, held("replica-1", time.Now()))
		recovery, err = second.Recover(t.Context(), lease)
		if err != nil || !recovery.Mine || recovery.State.Owner != "replica-1" {
			t.Fatalf("Recover when the lease is ours = %+v, %v, want it taken over", recovery, err)
		}
		conflict := phase.ErrConflict
		if _, err = first.Apply(t.Context(), state, phase.EventCancel, ""); !errors.Is(err, conflict) {
			t.Errorf("the first applies: %v, want %v", err, conflict)
		}
	})
}

// Bad input: every fault is named.
func TestNewLeaseRefuses(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset().CoordinationV1()
	tests := map[string]struct {
		client    coordinationclient.LeasesGetter
		namespace string
		opts      phasekube.LeaseOptions
		hint      string
	}{
		"no client":           {nil, "app", phasekube.LeaseOptions{}, "client"},
		"no namespace":        {client, "", phasekube.LeaseOptions{}, "namespace"},
		"negative duration":   {client, "app", phasekube.LeaseOptions{Duration: -time.Second}, "Duration"},
		"negative grace":      {client, "app", phasekube.LeaseOptions{Grace: -1}, "Grace"},
		"half a second":       {client, "app", phasekube.LeaseOptions{Duration: 1500 * time.Millisecond}, "whole seconds"},
		"no time to end":      {client, "app", phasekube.LeaseOptions{RenewDeadline: 15 * time.Second}, "RenewDeadline"},
		"one try only":        {client, "app", phasekube.LeaseOptions{RetryPeriod: 6 * time.Second}, "RetryPeriod"},
		"two faults are told": {nil, "app", phasekube.LeaseOptions{Grace: -1}, "Grace"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := phasekube.NewLease(tc.client, tc.namespace, "operator", tc.opts)
			if !errors.Is(err, phase.ErrInvalid) || !strings.Contains(err.Error(), tc.hint) || !strings.Contains(err.Error(), "/operator") {
				t.Errorf("NewLease = %v, want ErrInvalid that names %q", err, tc.hint)
			}
		})
	}
}
