package stack_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/test/e2e/audit"
	"github.com/sheetanchor/sheetanchor/test/e2e/driver"
	"github.com/sheetanchor/sheetanchor/test/e2e/kubelet"
	"github.com/sheetanchor/sheetanchor/test/e2e/stack"
)

// The zero Stack touches nothing, least of all a stack in the working directory.
func TestZeroStack(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("state.json", []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	var s stack.Stack
	calls := map[string]func(context.Context) error{
		"Down":    s.Down,
		"Restart": func(ctx context.Context) error { return s.Restart(ctx, stack.Etcd) },
		"Status": func(context.Context) error {
			_, err := s.Status()
			return err
		},
		"Kubeconfig": func(context.Context) error {
			_, err := s.Kubeconfig(stack.Admin)
			return err
		},
		"a connection": func(ctx context.Context) error {
			client, err := kubernetes.NewForConfig(s.Config(stack.Admin))
			if err != nil {
				return err
			}
			_, err = client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
			return err
		},
	}
	for name, do := range map[string]func(context.Context, string) error{
		"Start": s.Start, "Stop": s.Stop, "Kill": s.Kill, "Pause": s.Pause, "Resume": s.Resume,
	} {
		calls[name] = func(ctx context.Context) error { return do(ctx, stack.Etcd) }
	}
	for name, call := range calls {
		if err := call(t.Context()); !errors.Is(err, stack.ErrNoStack) {
			t.Errorf("%s of the zero Stack = %v, want ErrNoStack", name, err)
		}
	}
	if err := s.Driver().Ready(t.Context()); !errors.Is(err, driver.ErrNoClient) {
		t.Errorf("Driver().Ready = %v, want ErrNoClient", err)
	}
	if err := s.Kubelet().Healthy(t.Context()); !errors.Is(err, kubelet.ErrNoClient) {
		t.Errorf("Kubelet().Healthy = %v, want ErrNoClient", err)
	}
	if _, err := s.Audit().Counts(audit.Mark{}, ""); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("Audit().Counts = %v, want ErrInvalid", err)
	}
	if left, err := filepath.Glob("*"); err != nil || len(left) != 1 {
		t.Errorf("the working directory holds %q, %v, want the file that was there", left, err)
	}
}
