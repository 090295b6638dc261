package backuptest

import (
	"context"
	"errors"
	"sync"

	"k8s.io/client-go/dynamic"
)

// RunSnapshots runs a [SnapshotController] on a new [Driver] in memory, which serves the names given (none: [DefaultDriver]),
// until the test ends. Wrong options end the test. T is a *testing.T or anything like it; inside a testing/synctest bubble it is the bubble's.
func RunSnapshots(t interface {
	TB
	Context() context.Context
}, cluster *Cluster, opts ControllerOptions, names ...string,
) *Driver {
	t.Helper()
	client, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatalf("backuptest.RunSnapshots: %v", err)
		return nil
	}
	driver := NewDriver(DriverOptions{Names: names})
	controller := NewSnapshotController(client, driver, opts)
	if err := errors.Join(controller.wrong, driver.Load()); err != nil {
		t.Fatalf("backuptest.RunSnapshots: %v", err)
		return nil
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = controller.Run(ctx) }) // what can be wrong was looked at
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return driver
}
