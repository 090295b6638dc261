package kubelet_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/csisnapshot/podexec"
	"github.com/sheetanchor/sheetanchor/test/e2e/audit"
	"github.com/sheetanchor/sheetanchor/test/e2e/kubelet"
	"github.com/sheetanchor/sheetanchor/test/e2e/stack"
)

// onStack is the running stack of SHEETANCHOR_E2E with a namespace of the test's own, a pod "db" in it, and a user of the
// namespace's name who may exec there and do nothing else.
type onStack struct {
	*stub
	stack     *stack.Stack
	namespace string
	pod       csisnapshot.PodRef
}

func attach(t *testing.T) *onStack {
	t.Helper()
	dir := os.Getenv("SHEETANCHOR_E2E")
	if dir == "" {
		t.Skip("SHEETANCHOR_E2E is not the directory of a running stack")
	}
	running, err := stack.Attach(dir)
	if err != nil {
		t.Fatal(err)
	}
	admin := running.Config("admin")
	client, err := rest.HTTPClientFor(admin)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { utilnet.CloseIdleConnectionsFor(client.Transport) })
	core, err := kubernetes.NewForConfigAndClient(admin, client)
	if err != nil {
		t.Fatal(err)
	}
	s := &onStack{stack: running, stub: &stub{core: core, client: running.Kubelet()}}
	made, err := core.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "kubelet-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.namespace = made.Name
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := s.client.ClearScripts(ctx, s.namespace+"/*"); err != nil {
			t.Error(err)
		}
		if err := core.CoreV1().Namespaces().Delete(ctx, s.namespace, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	s.allow(t)
	pod := newPod(s.namespace + "/db")
	pod.Spec.NodeName = running.Node()
	s.pod = csisnapshot.PodRef{Namespace: s.namespace, Name: "db", UID: s.create(t, pod).UID}
	return s
}

// allow lets the user exec in the namespace.
func (s *onStack) allow(t *testing.T) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: "exec"}
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods/exec"}, Verbs: []string{"get", "create"}}}
	if _, err := s.core.RbacV1().Roles(s.namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "exec"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: s.namespace}},
	}
	if _, err := s.core.RbacV1().RoleBindings(s.namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (s *onStack) awaitRunning(t *testing.T) {
	t.Helper()
	pod := s.await(t, s.namespace+"/db", phaseIs(corev1.PodRunning))
	for _, c := range pod.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			t.Errorf("condition %s is %s", c.Type, c.Status)
		}
	}
	if pod.Status.PodIP != "127.0.0.1" || len(pod.Status.ContainerStatuses) != 2 {
		t.Errorf("status %+v", pod.Status)
	}
}

// A hook through the API server arrives here and its exit comes back, over either protocol; the audit log has it.
func TestStackExec(t *testing.T) {
	t.Parallel()
	s := attach(t)
	s.awaitRunning(t)
	ctx := within(t)
	script := kubelet.Script{Pattern: s.namespace + "/*", Command: "fail", ExitCode: 3, Stderr: "device busy"}
	if err := s.client.AddScript(ctx, script); err != nil {
		t.Fatal(err)
	}
	before := s.record(t).Last()
	mark, err := s.stack.Audit().Mark()
	if err != nil {
		t.Fatal(err)
	}
	for _, opts := range []podexec.Options{{}, {SPDYOnly: true}} {
		q, err := podexec.New(s.stack.Config(s.namespace), opts)
		if err != nil {
			t.Fatal(err)
		}
		if err := q.Exec(ctx, s.pod, csisnapshot.Hook{Container: "main", Command: []string{"sync", "a b"}}); err != nil {
			t.Errorf("Exec with %+v = %v", opts, err)
		}
		err = q.Exec(ctx, s.pod, csisnapshot.Hook{Container: "proxy", Command: []string{"fail"}})
		if e, ok := errors.AsType[*podexec.ExitError](err); !ok || e.Code != 3 || e.Stderr != "device busy" {
			t.Errorf("Exec with %+v = %v, want exit code 3 and what was said", opts, err)
		}
	}
	record := s.record(t).After(before).In(s.namespace)
	if len(record) != 4 {
		t.Fatalf("record %+v, want 4 commands", record)
	}
	for i, e := range record {
		command, container, code := "sync|a b", "main", 0
		if i%2 == 1 {
			command, container, code = "fail", "proxy", 3
		}
		if strings.Join(e.Command, "|") != command || e.Container != container || e.ExitCode != code || e.PodUID != s.pod.UID || e.Lost || e.Ended.IsZero() {
			t.Errorf("command %d = %+v, want %s in %s with exit code %d", i, e, command, container, code)
		}
	}
	s.stack.Audit().AssertCounts(t, map[string]int{"get pods/exec": 2, "create pods/exec": 2}, mark, s.namespace)
}

// When the client goes away, the API server ends the connection to the kubelet.
func TestStackExecHangs(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]podexec.Options{"websocket": {}, "spdy": {SPDYOnly: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := attach(t)
			s.awaitRunning(t)
			if err := s.client.AddScript(t.Context(), kubelet.Script{Pattern: s.namespace + "/*", Hang: true}); err != nil {
				t.Fatal(err)
			}
			q, err := podexec.New(s.stack.Config(s.namespace), opts)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(within(t))
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				ended <- q.Exec(ctx, s.pod, csisnapshot.Hook{Container: "main", Command: []string{"freeze"}})
			}()
			s.awaitRecord(t, func(r kubelet.Record) bool { return len(r.In(s.namespace)) == 1 })
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("Exec = %v, want context.Canceled", err)
			}
			record := s.awaitRecord(t, func(r kubelet.Record) bool { return allEnded(r.In(s.namespace)) }).In(s.namespace)
			if !record[0].Lost {
				t.Errorf("record %+v, want it lost", record)
			}
		})
	}
}

// A pod with a grace period goes when it is deleted, and the kubelet needs no more than its package comment says.
func TestStackPodDeletion(t *testing.T) {
	t.Parallel()
	s := attach(t)
	s.awaitRunning(t)
	if err := s.core.CoreV1().Pods(s.namespace).Delete(t.Context(), "db", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.await(t, s.namespace+"/db", func(pod *corev1.Pod) bool { return pod == nil })
	events, err := s.stack.Audit().Events(audit.Mark{}, stack.Kubelet, audit.NoDiscovery)
	if err != nil {
		t.Fatal(err)
	}
	if _, missing := audit.CompareRules(leastRules, audit.Rules(events)); len(missing) > 0 {
		t.Errorf("the kubelet also used %q", missing)
	}
}
