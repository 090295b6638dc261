package stack_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sheetanchor/sheetanchor/test/e2e/stack"
)

// steered is a case of TestStack.
type steered struct {
	*testing.T

	stack   *stack.Stack
	cluster cluster
}

// TestStack brings up a stack, beside the first one if test/e2e/run has started one, and steers its components. The cases
// run in order, on one stack: each leaves it healthy.
func TestStack(t *testing.T) {
	s := up(t, stack.Options{Flags: map[string][]string{stack.SnapshotController: {"--worker-threads=3"}}})
	c := newCluster(t, s)
	for _, step := range []struct {
		name string
		test func(steered)
	}{
		{"a claim gets its snapshot", testSnapshot},
		{"another stack knows nothing of it", testBeside},
		{"users are who they say", testUsers},
		{"a paused component does nothing until it is resumed", testPause},
		{"the API server's data outlives a kill", testKillAPIServer},
		{"the data outlives a restart of etcd", testRestartEtcd},
		{"flags are set and dropped", testFlags},
		{"the sidecars come back with the driver", testDriver},
		{"a stopped sidecar stays away", testStoppedSidecar},
		{"the controllers and the kubelet are started again", testRestartOthers},
		{"what does not exist or run is an error", testErrors},
		{"no component was refused anything", testRBAC},
	} {
		t.Run(step.name, func(t *testing.T) { step.test(steered{T: t, stack: s, cluster: c}) })
	}
	all, err := s.Status()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Stat of the directory after Down = %v, want none", err)
	}
	for _, st := range all {
		if _, err := os.Stat(filepath.Join("/proc", itoa(st.PID))); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s still has process %d after Down: %v", st.Component, st.PID, err)
		}
	}
	if err := s.Down(t.Context()); err != nil {
		t.Errorf("second Down = %v, want nil", err)
	}
	if _, err := stack.Attach(s.Dir()); !errors.Is(err, stack.ErrNoStack) {
		t.Errorf("Attach after Down = %v, want ErrNoStack", err)
	}
}

func testSnapshot(x steered) {
	t, s, c := x.T, x.stack, x.cluster
	c.claim(t, "one")
	c.snapshot(t, "one", "first")
	c.awaitReady(t, "one", "first")
	held, err := s.Driver().Snapshots(t.Context())
	if err != nil || len(held) != 1 {
		t.Errorf("the driver holds %v, %v, want one snapshot", held, err)
	}
	info, err := os.Stat(s.Dir())
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory's mode is %v, %v, want 0700", info.Mode(), err)
	}
}

func testBeside(x steered) {
	t, s := x.T, x.stack
	other := first(t)
	if other == nil {
		t.Skipf("%s is not set: no other stack runs", stack.EnvDir)
	}
	if other.Dir() == s.Dir() {
		t.Fatalf("both are in %s", s.Dir())
	}
	namespaces, err := newCluster(t, other).core.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, ns := range namespaces.Items {
		if ns.Name == "one" {
			t.Error("the other stack has this stack's namespace")
		}
	}
	strange := s.Config(stack.Admin)
	strange.Host = other.Config(stack.Admin).Host
	if _, err := newCore(t, strange).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("the other stack trusts this stack's certificates")
	}
}

func testUsers(x steered) {
	t, s := x.T, x.stack
	path, err := s.Kubeconfig("team/ a")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	core := newCore(t, cfg)
	review, err := core.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || review.Status.UserInfo.Username != "team/ a" {
		t.Errorf("the kubeconfig's user is %q, %v", review.Status.UserInfo.Username, err)
	}
	if _, err := core.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a user without a role lists nodes: %v, want forbidden", err)
	}
	_, err = newCore(t, s.Config("\xff")).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a user whom no certificate can name gets %v, want the reason", err)
	}
}

func testPause(x steered) {
	t, s, c := x.T, x.stack, x.cluster
	ctx := t.Context()
	if err := s.Pause(ctx, stack.SnapshotController); err != nil {
		t.Fatal(err)
	}
	if got := status(t, s, stack.SnapshotController).State; got != stack.Paused {
		t.Errorf("after Pause it is %s", got)
	}
	if err := s.Start(ctx, stack.SnapshotController); !errors.Is(err, stack.ErrPaused) {
		t.Errorf("Start of a paused component = %v, want ErrPaused", err)
	}
	c.snapshot(t, "one", "paused")
	// The sidecar would have answered within this time if the controller had made the content.
	err := s.Restart(ctx, stack.Snapshotter)
	if err != nil {
		t.Fatal(err)
	}
	vs, err := c.snap.SnapshotV1().VolumeSnapshots("one").Get(ctx, "paused", metav1.GetOptions{})
	if err != nil || vs.Status != nil || len(vs.Finalizers) != 0 {
		t.Errorf("with the controller paused the snapshot is %+v, %v, want it untouched", vs, err)
	}
	if err := s.Resume(ctx, stack.SnapshotController); err != nil {
		t.Fatal(err)
	}
	if got := status(t, s, stack.SnapshotController).State; got != stack.Running {
		t.Errorf("after Resume it is %s", got)
	}
	c.awaitReady(t, "one", "paused")
}

func testKillAPIServer(x steered) {
	t, s, c := x.T, x.stack, x.cluster
	ctx := t.Context()
	before := status(t, s, stack.APIServer)
	if err := s.Kill(ctx, stack.APIServer); err != nil {
		t.Fatal(err)
	}
	if got := status(t, s, stack.APIServer); got.State != stack.Stopped {
		t.Errorf("after Kill it is %s", got.State)
	}
	short, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := c.core.CoreV1().Namespaces().Get(short, "one", metav1.GetOptions{}); err == nil {
		t.Error("a killed API server answers")
	}
	if err := s.Start(ctx, stack.APIServer); err != nil {
		t.Fatal(err)
	}
	if after := status(t, s, stack.APIServer); after.PID == before.PID {
		t.Errorf("process %d before and after", after.PID)
	}
	c.awaitReady(t, "one", "first")
}

func testRestartEtcd(x steered) {
	t, s, c := x.T, x.stack, x.cluster
	if err := s.Restart(t.Context(), stack.Etcd); err != nil {
		t.Fatal(err)
	}
	c.awaitReady(t, "one", "first")
	c.snapshot(t, "one", "after-etcd")
	c.awaitReady(t, "one", "after-etcd")
}

func testFlags(x steered) {
	t, s, c := x.T, x.stack, x.cluster
	if got := status(t, s, stack.SnapshotController).Flags; !slices.Equal(got, []string{"--worker-threads=3"}) {
		t.Errorf("flags from Up are %q", got)
	}
	want := []string{"--kube-api-qps=200", "--kube-api-burst=400"}
	if err := s.Restart(t.Context(), stack.SnapshotController, want...); err != nil {
		t.Fatal(err)
	}
	if got := status(t, s, stack.SnapshotController).Flags; !slices.Equal(got, want) {
		t.Errorf("flags after Restart are %q", got)
	}
	if err := s.Restart(t.Context(), stack.SnapshotController); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(s.LogPath(stack.SnapshotController))
	if err != nil {
		t.Fatal(err)
	}
	var starts []string
	for line := range strings.Lines(string(log)) {
		if strings.HasPrefix(line, "--- ") {
			starts = append(starts, line)
		}
	}
	if n := len(starts); n != 3 || !strings.Contains(starts[0], "threads=3") || !strings.Contains(starts[1], strings.Join(want, " ")) ||
		strings.Contains(starts[1], "threads") || strings.Contains(starts[2], "qps") {
		t.Errorf("the log's starts are %q, want the flags of each start alone", starts)
	}
	c.snapshot(t, "one", "after-flags")
	c.awaitReady(t, "one", "after-flags")
}

func testDriver(x steered) {
	t, s, c := x.T, x.stack, x.cluster
	ctx := t.Context()
	before := status(t, s, stack.Snapshotter).PID
	if err := s.Kill(ctx, stack.Driver); err != nil {
		t.Fatal(err)
	}
	// A sidecar notices at its next call, and ends.
	c.snapshot(t, "one", "without-driver")
	await(t, "the sidecar ends without the driver", func(context.Context) (bool, error) {
		return status(t, s, stack.Snapshotter).State == stack.Ended, nil
	})
	if err := s.Start(ctx, stack.Driver); err != nil {
		t.Fatal(err)
	}
	if after := status(t, s, stack.Snapshotter); after.State != stack.Running || after.PID == before {
		t.Errorf("the sidecar is %+v, want a new process, running", after)
	}
	c.awaitReady(t, "one", "without-driver")
	c.claim(t, "two")
	c.snapshot(t, "two", "first")
	c.awaitReady(t, "two", "first")
	held, err := s.Driver().Snapshots(ctx)
	if err != nil || len(held) != 6 {
		t.Errorf("the driver holds %d snapshots, %v, want those before its kill too, 6", len(held), err)
	}
}

func testStoppedSidecar(x steered) {
	t, s, c := x.T, x.stack, x.cluster
	ctx := t.Context()
	if err := s.Stop(ctx, stack.Snapshotter); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(ctx, stack.Driver); err != nil {
		t.Fatal(err)
	}
	if got := status(t, s, stack.Snapshotter).State; got != stack.Stopped {
		t.Errorf("a stopped sidecar is %s after a restart of the driver", got)
	}
	if got := status(t, s, stack.Provisioner).State; got != stack.Running {
		t.Errorf("the other sidecar is %s after a restart of the driver", got)
	}
	if err := s.Start(ctx, stack.Snapshotter); err != nil {
		t.Fatal(err)
	}
	c.snapshot(t, "two", "second")
	c.awaitReady(t, "two", "second")
}

// testRestartOthers works through a second handle of the stack, as another program would.
func testRestartOthers(x steered) {
	t, s := x.T, x.stack
	again, err := stack.Attach(s.Dir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{stack.ControllerManager, stack.Kubelet, stack.Provisioner} {
		before := status(t, s, name).PID
		if err := again.Restart(t.Context(), name); err != nil {
			t.Error(err)
		}
		if after := status(t, s, name); after.State != stack.Running || after.PID == before {
			t.Errorf("after a restart by another handle %s is %+v", name, after)
		}
	}
	if err := s.Kubelet().Healthy(t.Context()); err != nil {
		t.Error(err)
	}
}

func testErrors(x steered) {
	t, s := x.T, x.stack
	ctx := t.Context()
	if err := s.Stop(ctx, "scheduler"); !errors.Is(err, stack.ErrComponent) {
		t.Errorf("Stop of what does not exist = %v, want ErrComponent", err)
	}
	if err := s.Stop(ctx, stack.Provisioner); err != nil {
		t.Fatal(err)
	}
	for name, op := range map[string]func(context.Context, string) error{"Kill": s.Kill, "Pause": s.Pause, "Resume": s.Resume} {
		if err := op(ctx, stack.Provisioner); !errors.Is(err, stack.ErrNotRunning) {
			t.Errorf("%s of what does not run = %v, want ErrNotRunning", name, err)
		}
	}
	if err := s.Stop(ctx, stack.Provisioner); err != nil {
		t.Errorf("second Stop = %v, want nil", err)
	}
	err := s.Restart(ctx, stack.Provisioner, "--no-such-flag")
	if unhealthy, ok := errors.AsType[*stack.UnhealthyError](err); !ok || !strings.Contains(unhealthy.Log, "no-such-flag") {
		t.Errorf("Restart with a flag that does not exist = %v, want an UnhealthyError with the log", err)
	}
	if err := s.Restart(ctx, stack.Provisioner); err != nil {
		t.Error(err)
	}
}
