package kubelet_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sheetanchor/sheetanchor/test/e2e/kubelet"
)

// A client that nobody made asks nobody: the zero HTTP client would look for a host named kubelet.
func TestNoClient(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]*kubelet.Client{"nil": nil, "zero": {}} {
		for method, call := range map[string]func(context.Context) error{
			"Healthy":      c.Healthy,
			"AwaitHealthy": c.AwaitHealthy,
			"AddScript":    func(ctx context.Context) error { return c.AddScript(ctx, kubelet.Script{Pattern: "*/*"}) },
			"ClearScripts": func(ctx context.Context) error { return c.ClearScripts(ctx, "") },
			"Record": func(ctx context.Context) error {
				_, err := c.Record(ctx)
				return err
			},
		} {
			if err := call(t.Context()); !errors.Is(err, kubelet.ErrNoClient) {
				t.Errorf("%s of the %s Client = %v, want ErrNoClient", method, name, err)
			}
		}
	}
}
