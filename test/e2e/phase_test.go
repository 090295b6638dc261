package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/phase"
	"github.com/sheetanchor/sheetanchor/phase/phasekube"
	"github.com/sheetanchor/sheetanchor/test/e2e/stack"
)

// phaseWorld is a namespace of the stack, and a user with the roles of docs/rbac/phasekube.yaml in it.
type phaseWorld struct {
	stack     *stack.Stack
	namespace string
	admin     dynamic.Interface
	adminCore kubernetes.Interface
	user      dynamic.Interface
	userCore  kubernetes.Interface
}

const phaseUser = "phase-operator"

// TestPhase applies phases on a real API server. Its cases run in order and no other test runs beside them, because one
// restarts the server.
func TestPhase(t *testing.T) {
	t.Parallel()
	w := &phaseWorld{stack: ownStack(t, nil).Stack}
	w.admin, w.adminCore = clients(t, stack.Admin)
	w.user, w.userCore = clients(t, phaseUser)
	ns, err := w.adminCore.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "phase-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.namespace = ns.Name
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := w.adminCore.CoreV1().Namespaces().Delete(ctx, w.namespace, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	w.grant(t)
	t.Run("definitions", w.testDefinitions)
	t.Run("ConfigMap", w.testConfigMap)
	t.Run("conflicts", w.testConflicts)
	t.Run("refusals", w.testRefusals)
	t.Run("Lease", w.testLease)
	t.Run("restart of the API server", w.testRestart)
	t.Run("Lease while the API server is paused", w.testPausedLease)
}

// X3: grant gives the user exactly the documented roles, with the tests' resources in the place of the example's.
func (w *phaseWorld) grant(t *testing.T) {
	t.Helper()
	data, err := os.ReadFile("../../docs/rbac/phasekube.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dec := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		var doc rbacv1.ClusterRole // a Role has the same form
		if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		doc.Rules = phaseRules(doc.Rules)
		subject := []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: phaseUser, APIGroup: rbacv1.GroupName}}
		meta := metav1.ObjectMeta{Name: w.namespace + "-" + strings.ToLower(doc.Kind)}
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: doc.Kind, Name: meta.Name}
		switch rbac := w.adminCore.RbacV1(); doc.Kind {
		case "ClusterRole":
			if _, err = rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: doc.Rules}, metav1.CreateOptions{}); err == nil {
				_, err = rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subject}, metav1.CreateOptions{})
			}
			t.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
				defer cancel()
				if err := errors.Join(rbac.ClusterRoles().Delete(ctx, meta.Name, metav1.DeleteOptions{}),
					rbac.ClusterRoleBindings().Delete(ctx, meta.Name, metav1.DeleteOptions{})); err != nil {
					t.Error(err)
				}
			})
		case "Role":
			err = w.grantLease(t, w.namespace, doc.Rules)
		default:
			t.Fatalf("docs/rbac/phasekube.yaml has a %s", doc.Kind)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (w *phaseWorld) grantLease(t *testing.T, namespace string, rules []rbacv1.PolicyRule) error {
	t.Helper()
	meta := metav1.ObjectMeta{Name: "lease", Namespace: namespace}
	rbac := w.adminCore.RbacV1()
	if _, err := rbac.Roles(namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := rbac.RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: phaseUser, APIGroup: rbacv1.GroupName}},
	}, metav1.CreateOptions{})
	return err
}

func phaseRules(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	for i, rule := range rules {
		if rule.APIGroups[0] == "example.com" {
			rules[i].APIGroups = []string{phaseGroup}
			sub := ""
			if strings.HasSuffix(rule.Resources[0], "/status") {
				sub = "/status"
			}
			rules[i].Resources = nil
			for _, tc := range phaseCases {
				rules[i].Resources = append(rules[i].Resources, tc.plural+sub)
			}
		}
		if rule.Resources[0] == "customresourcedefinitions" {
			rules[i].ResourceNames = nil
			for _, tc := range phaseCases {
				rules[i].ResourceNames = append(rules[i].ResourceNames, tc.plural+"."+phaseGroup)
			}
		}
	}
	return rules
}

func (w *phaseWorld) configMap(t *testing.T, name string) *phasekube.Object[string] {
	t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"note": "keep me"}}
	if _, err := w.adminCore.CoreV1().ConfigMaps(w.namespace).Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return phasekube.NewConfigMap[string](w.user, w.namespace, name)
}

func (w *phaseWorld) applier(t *testing.T, object phase.Object[string], owner string) *phase.Applier[string] {
	t.Helper()
	a, err := phase.NewApplier(phase.Backup[string](), object, phase.ApplierOptions[string]{Owner: owner})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// P8: P7: a built-in kind needs no definition; the end has its time, and nothing else in the object is touched.
func (w *phaseWorld) testConfigMap(t *testing.T) {
	object := w.configMap(t, "plain")
	report, err := object.Preflight(t.Context(), phase.Backup[string]())
	if err != nil || len(report.Findings) != 0 {
		t.Errorf("Preflight = %v, %v, want no findings", report, err)
	}
	state, err := w.walk(t, object, "")
	if err != nil || state.Phase != phase.PartiallyFailed || state.Completed.IsZero() || state.Entered.IsZero() || state.Reason != phase.ReasonOperationsFailed {
		t.Errorf("the walk ends as %+v, %v", state, err)
	}
	cm, err := w.adminCore.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), "plain", metav1.GetOptions{})
	if err != nil || cm.Data["note"] != "keep me" {
		t.Errorf("data = %v, %v, want the note kept", cm.Data, err)
	}
}

// P5: phase-9, phase-10: twenty claims at once: one wins, the others are told who; an unrelated change is no conflict.
func (w *phaseWorld) testConflicts(t *testing.T) {
	object := w.configMap(t, "wanted")
	state, err := w.applier(t, object, "").Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	patch := []byte(`{"metadata":{"labels":{"other":"writer"}}}`)
	if _, err := w.adminCore.CoreV1().ConfigMaps(w.namespace).Patch(t.Context(), "wanted", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	const n = 20
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		a := w.applier(t, object, "replica-"+string(rune('a'+i)))
		wg.Go(func() { _, errs[i] = a.Apply(t.Context(), state, phase.EventStart, "") })
	}
	wg.Wait()
	now, err := object.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	winners := 0
	for i, err := range errs {
		owner := "replica-" + string(rune('a'+i))
		conflict, lost := errors.AsType[*phase.ConflictError](err)
		switch {
		case err == nil:
			winners++
			if now.Owner != owner {
				t.Errorf("%s was told that it won, the owner is %s", owner, now.Owner)
			}
		case !lost || conflict.Owner != now.Owner || conflict.Found != phase.InProgress:
			t.Errorf("%s: %v, want a conflict with %s", owner, err, now.Owner)
		}
	}
	if winners != 1 {
		t.Errorf("%d of %d won, want one", winners, n)
	}
}

// P5: refusals have types of their own: a deleted object, no permission, a quota, a namespace that is being deleted.
func (w *phaseWorld) testRefusals(t *testing.T) {
	object := w.configMap(t, "gone")
	a := w.applier(t, object, "replica-1")
	state, err := a.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.adminCore.CoreV1().ConfigMaps(w.namespace).Delete(t.Context(), "gone", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := a.Apply(t.Context(), state, phase.EventStart, ""); !errors.Is(err, phase.ErrNotFound) || time.Since(began) < 2*time.Second {
		t.Errorf("Apply to a deleted object = %v after %v, want ErrNotFound after two seconds", err, time.Since(began))
	}
	secrets := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	secret := phasekube.New[string](w.user, secrets, w.namespace, "any", phasekube.Options{Fields: phasekube.Fields{Phase: "stringData.phase"}})
	if _, err := w.applier(t, secret, "").Load(t.Context()); !errors.Is(err, phase.ErrForbidden) {
		t.Errorf("Load without permission = %v, want ErrForbidden", err)
	}
	report, err := secret.Preflight(t.Context(), phase.Backup[string]())
	if err != nil || len(report.Findings) != 1 || report.Findings[0].Problem != phasekube.ProblemForbidden {
		t.Errorf("Preflight without permission = %v, %v, want it reported", report, err)
	}
	t.Run("quota", w.testQuota)
	t.Run("namespace", w.testTerminating)
}

// hold tries for a while to hold the lease, and returns why it could not.
func (w *phaseWorld) hold(t *testing.T, namespace string) error {
	t.Helper()
	lease, err := phasekube.NewLease(w.userCore.CoordinationV1(), namespace, "backup-operator", phasekube.LeaseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	return lease.Hold(ctx, "replica-1", func(context.Context) error { return nil })
}

// otherNamespace is one in which the user may hold a lease.
func (w *phaseWorld) otherNamespace(t *testing.T) string {
	t.Helper()
	ns, err := w.adminCore.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "phase-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.grantLease(t, ns.Name, []rbacv1.PolicyRule{{
		APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "create", "update"},
	}}); err != nil {
		t.Fatal(err)
	}
	return ns.Name
}

func (w *phaseWorld) testQuota(t *testing.T) {
	namespace := w.otherNamespace(t)
	hard := corev1.ResourceList{"count/leases.coordination.k8s.io": resource.MustParse("0")}
	quotas := w.adminCore.CoreV1().ResourceQuotas(namespace)
	quota, err := quotas.Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: hard},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	quota.Status = corev1.ResourceQuotaStatus{Hard: hard, Used: hard} // no controller of quotas runs
	if _, err = quotas.UpdateStatus(t.Context(), quota, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := w.hold(t, namespace); !errors.Is(err, phase.ErrQuotaExceeded) {
		t.Errorf("Hold over the quota = %v, want ErrQuotaExceeded", err)
	}
	if err := w.adminCore.CoreV1().Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

func (w *phaseWorld) testTerminating(t *testing.T) {
	namespace := w.otherNamespace(t)
	maps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	keeper := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "keeper", "finalizers": []any{"e2e.sheetanchor.io/keep"}},
	}}
	if _, err := w.admin.Resource(maps).Namespace(namespace).Create(t.Context(), keeper, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := w.adminCore.CoreV1().Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := w.hold(t, namespace); !errors.Is(err, phase.ErrNamespaceTerminating) {
		t.Errorf("Hold in a namespace that is being deleted = %v, want ErrNamespaceTerminating", err)
	}
	// What is there can still be brought to its end.
	if state, err := w.walk(t, phasekube.NewConfigMap[string](w.user, namespace, "keeper"), ""); err != nil || state.Phase != phase.PartiallyFailed {
		t.Errorf("a walk in it ends in %q, %v", state.Phase, err)
	}
	free := []byte(`{"metadata":{"finalizers":null}}`)
	if _, err := w.admin.Resource(maps).Namespace(namespace).Patch(t.Context(), "keeper", types.MergePatchType, free, metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
}

// X5: P4: one of two replicas works; when it ends, the other one begins, and takes its work over.
func (w *phaseWorld) testLease(t *testing.T) {
	object := w.configMap(t, "leased")
	leases := make([]*phasekube.Lease, 2)
	for i := range leases {
		var err error
		if leases[i], err = phasekube.NewLease(w.userCore.CoordinationV1(), w.namespace, "backup-operator", phasekube.LeaseOptions{Duration: 3 * time.Second}); err != nil {
			t.Fatal(err)
		}
	}
	first, second := w.applier(t, object, "replica-1"), w.applier(t, object, "replica-2")
	var ended time.Time
	var wg sync.WaitGroup
	err := leases[0].Hold(t.Context(), "replica-1", func(ctx context.Context) error {
		state, err := first.Load(ctx)
		if err != nil {
			return err
		}
		if _, err = first.Apply(ctx, state, phase.EventStart, ""); err != nil {
			return err
		}
		beat, err := leases[1].Heartbeat(ctx, "replica-1")
		if err != nil || beat.Life(time.Now(), 0) != phase.Live {
			t.Errorf("the heartbeat of the holder is %+v, %v, want it live", beat, err)
		}
		wg.Go(func() {
			err := leases[1].Hold(t.Context(), "replica-2", func(ctx context.Context) error {
				if ended.IsZero() {
					t.Error("the second works while the first does")
				}
				r, err := second.Recover(ctx, leases[1])
				if err != nil || !r.Mine || r.State.Owner != "replica-2" {
					t.Errorf("Recover = %+v, %v, want the work taken over", r, err)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
		timer := time.NewTimer(5 * time.Second) // longer than the lease lasts without renewals
		defer timer.Stop()
		select {
		case <-ctx.Done():
			t.Errorf("the context of the first ended: %v", context.Cause(ctx))
		case <-timer.C:
		}
		ended = time.Now()
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	wg.Wait()
}

// P5: phase-2: walks go on over a restart of the API server, with refused connections, and Forbidden while it fills its caches.
func (w *phaseWorld) testRestart(t *testing.T) {
	const n = 8
	var wg sync.WaitGroup
	states, errs := make([]phase.State[string], n), make([]error, n)
	under := make(chan struct{})
	for i := range n {
		object := w.configMap(t, "restart-"+string(rune('a'+i)))
		a := w.applier(t, object, "replica-1")
		wg.Go(func() {
			state, err := a.Load(t.Context())
			if err == nil {
				state, err = a.Apply(t.Context(), state, phase.EventStart, "")
			}
			<-under
			// Writes without end for the time of the restart, each of which records a new reason.
			for _, tally := range []phase.Tally{{Running: 1, Failed: 1}, {Completed: 1}, {Completed: 1}} {
				timer := time.NewTimer(time.Duration(i) * 300 * time.Millisecond)
				<-timer.C
				if err == nil {
					state, err = a.Advance(t.Context(), state, tally)
				}
			}
			states[i], errs[i] = state, err
		})
	}
	close(under)
	if err := w.stack.Restart(t.Context(), stack.APIServer); err != nil {
		t.Error(err)
	}
	wg.Wait()
	for i := range n {
		if errs[i] != nil || states[i].Phase != phase.PartiallyFailed {
			t.Errorf("walk %d ends in %q, %v, want PartiallyFailed", i, states[i].Phase, errs[i])
		}
	}
}

// X5: while the API server answers nothing at all, the context ends before the lease does.
func (w *phaseWorld) testPausedLease(t *testing.T) {
	lease, err := phasekube.NewLease(w.userCore.CoordinationV1(), w.namespace, "backup-operator", phasekube.LeaseOptions{Duration: 6 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	resumed := false
	resume := func() {
		if !resumed {
			resumed = true
			if err := w.stack.Resume(t.Context(), stack.APIServer); err != nil {
				t.Error(err)
			}
		}
	}
	err = lease.Hold(t.Context(), "replica-3", func(ctx context.Context) error {
		if err := w.stack.Pause(t.Context(), stack.APIServer); err != nil {
			return err
		}
		defer resume()
		began := time.Now()
		timer := time.NewTimer(6 * time.Second)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			if took := time.Since(began); took > 5*time.Second || !errors.Is(context.Cause(ctx), phasekube.ErrLeaseLost) {
				t.Errorf("the context ended after %v with %v, want four seconds and ErrLeaseLost", took, context.Cause(ctx))
			}
		case <-timer.C:
			t.Error("the context outlives the lease")
		}
		return nil
	})
	resume()
	if !errors.Is(err, phasekube.ErrLeaseLost) {
		t.Errorf("Hold = %v, want ErrLeaseLost", err)
	}
}
