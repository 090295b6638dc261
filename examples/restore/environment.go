package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/internal/apirequest"
	"github.com/sheetanchor/sheetanchor/internal/atomicfile"
)

// The recorded backup: what a run of examples/backup left in its store, and its storage's snapshots. Its times are moved to
// 1999, before the clocks of tests in virtual time begin, so that the snapshots are ready for them too.
var (
	//go:embed recorded/demo-volumeinfo.json.gz
	recordedVolumes []byte
	//go:embed recorded/driver.json
	recordedDriver []byte
)

// openStore makes a temporary store with the recorded backup if the user named none, which done removes.
func openStore(opts *options) (done func() error, err error) {
	if opts.store != "" {
		return func() error { return nil }, nil
	}
	if opts.store, err = os.MkdirTemp("", "sheetanchor-"); err != nil {
		return nil, fmt.Errorf("-store: %w", err)
	}
	dir := filepath.Join(opts.store, "backups", "demo")
	err = errors.Join(
		os.MkdirAll(dir, 0o700),
		os.WriteFile(filepath.Join(dir, "demo-volumeinfo.json.gz"), recordedVolumes, 0o600),
		os.WriteFile(filepath.Join(opts.store, "driver.json"), recordedDriver, 0o600),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("-store: %w", err), os.RemoveAll(opts.store))
	}
	return func() error { return os.RemoveAll(opts.store) }, nil
}

// environment is the cluster to restore into.
type environment struct {
	core     kubernetes.Interface
	dynamic  dynamic.Interface
	requests apirequest.Counter
	close    func() error
}

func openEnvironment(ctx context.Context, opts options) (*environment, error) {
	if opts.embedded() {
		return startEmbedded(ctx, opts)
	}
	config, err := clientcmd.BuildConfigFromFlags("", opts.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("-kubeconfig %s: %w", opts.kubeconfig, err)
	}
	config.UserAgent, config.QPS, config.Burst = programName, 50, 100
	return connect(config)
}

// connect makes the clients, on a transport that counts their requests.
func connect(config *rest.Config) (env *environment, err error) {
	env = &environment{close: func() error { return nil }}
	config.Wrap(env.requests.Wrap)
	if env.core, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("core client: %w", err)
	}
	if env.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("dynamic client: %w", err)
	}
	return env, nil
}

// startEmbedded starts an in-memory cluster with a fake snapshot controller and a fake provisioner, whose class makes volumes
// with a policy that the backup's did not have. It goes on with the cluster and the storage that are in the store.
func startEmbedded(ctx context.Context, opts options) (*environment, error) {
	if _, err := os.Stat(filepath.Join(opts.store, "driver.json")); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("-store %s: there is no driver.json, the embedded storage of a run of examples/backup", opts.store)
	}
	lock, err := atomicfile.OS{}.TryLock(filepath.Join(opts.store, "cluster.lock"))
	if err != nil {
		return nil, fmt.Errorf("-store %s: another process uses its cluster: %w", opts.store, err)
	}
	cluster, err := backuptest.Start(backuptest.Options{
		File:    filepath.Join(opts.store, "cluster.json"),
		Objects: backuptest.Objects(backuptest.StorageClass{Name: "fast", Driver: "csi.example.dev"}),
	})
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	env, err := connect(cluster.Config())
	if err != nil {
		cluster.Close()
		return nil, errors.Join(err, lock.Close())
	}
	refuse(cluster, opts.fail)
	driver := backuptest.NewDriver(backuptest.DriverOptions{Names: []string{"csi.example.dev"}, File: filepath.Join(opts.store, "driver.json")})
	stop := startControllers(ctx, cluster.Config(), driver)
	env.close = func() error {
		err := stop()
		cluster.Close()
		return errors.Join(err, lock.Close())
	}
	return env, nil
}

// refuse makes the server refuse claims.
func refuse(cluster *backuptest.Cluster, claims map[string]string) {
	for claim, text := range claims {
		cluster.Fault(backuptest.Fault{Verb: "create", Resource: "persistentvolumeclaims", Name: claim, Code: http.StatusForbidden, Message: text})
	}
}

// startControllers runs what makes snapshots ready and binds claims, until stop is called, which waits for it.
func startControllers(ctx context.Context, config *rest.Config, driver *backuptest.Driver) (stop func() error) {
	config.QPS = -1 // they have their own rate
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	var controllerErr, provisionerErr error
	client, err := dynamic.NewForConfig(config)
	if err == nil {
		controller := backuptest.NewSnapshotController(client, driver, backuptest.ControllerOptions{})
		provisioner := backuptest.NewProvisioner(client, driver, backuptest.ProvisionerOptions{Latency: 300 * time.Millisecond})
		group.Go(func() { controllerErr = controller.Run(ctx) })
		group.Go(func() { provisionerErr = provisioner.Run(ctx) })
	}
	return func() error {
		cancel()
		group.Wait()
		if errors.Is(controllerErr, context.Canceled) {
			controllerErr = nil
		}
		return errors.Join(err, controllerErr, provisionerErr)
	}
}

// look is what the program prints of a persistent volume.
func look(pv *corev1.PersistentVolume) pvState {
	return pvState{Policy: string(pv.Spec.PersistentVolumeReclaimPolicy), Labels: pv.Labels}
}
