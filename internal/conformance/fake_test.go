package conformance_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/dynamic"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/internal/conformance"
	"github.com/sheetanchor/sheetanchor/internal/golden"
)

// B2 B3 all-6: the fake controller and provisioner take their objects through what the golden files say, to which test/e2e holds a
// real stack.
func TestFakeConforms(t *testing.T) {
	t.Parallel()
	for _, s := range conformance.Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				outcome, err := conformance.Run(t.Context(), fakeWorld(t), s)
				if err != nil {
					t.Fatalf("%s: %v", s.Reason, err)
				}
				golden.Check(t, s.Name+".txt", []byte(outcome))
			})
		})
	}
}

// fakeWorld is backuptest's, with controllers that run until the test ends.
func fakeWorld(t *testing.T) conformance.World {
	t.Helper()
	cluster := backuptest.New(t, backuptest.Options{Objects: backuptest.Objects(backuptest.StorageClass{})})
	client, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	driver := backuptest.NewDriver(backuptest.DriverOptions{})
	controller := backuptest.NewSnapshotController(client, driver, backuptest.ControllerOptions{Groups: true})
	provisioner := backuptest.NewProvisioner(client, driver, backuptest.ProvisionerOptions{})
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { _ = controller.Run(ctx) })
	all.Go(func() { _ = provisioner.Run(ctx) })
	t.Cleanup(func() {
		stop()
		all.Wait()
	})
	return conformance.World{
		Client: client, Driver: backuptest.DefaultDriver, StorageClass: backuptest.DefaultStorageClass, Node: "node-1",
		SetScript: func(_ context.Context, claim string, script backuptest.Script) error {
			controller.SetScript(claim, script)
			return nil
		},
	}
}
