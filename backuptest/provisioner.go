package backuptest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// ProvisionerOptions configure a [Provisioner]. The zero value binds a claim at once.
type ProvisionerOptions struct {
	// Latency is how long the storage needs for a volume.
	Latency time.Duration
	// RetryStart and RetryMax bound the time between two tries, which doubles. 0: one second and five minutes.
	RetryStart, RetryMax time.Duration
	// Resync is the time after which everything is listed again in case a watch lost something. 0: 30 seconds.
	Resync time.Duration
}

// Provisioner gives claims their volumes, as csi-provisioner and the volume binder do together: a claim of a storage class of the
// driver gets a new volume, one whose class waits for its first consumer once it has the annotation
// volume.kubernetes.io/selected-node, one with a VolumeSnapshot as data source when that is ready. While it restores, it holds the
// snapshot with its own finalizer. A claim that names an existing volume is bound to it, whatever the driver. A claim that is
// deleted goes when no pod uses it. Volumes are not deleted.
type Provisioner struct {
	client dynamic.Interface
	driver *Driver
	opts   ProvisionerOptions
	wrong  error // what is wrong with the options
}

// NewProvisioner returns a provisioner for the storage classes of a driver. Nothing happens before [Provisioner.Run].
func NewProvisioner(client dynamic.Interface, driver *Driver, opts ProvisionerOptions) *Provisioner {
	wrong := opts.wrong()
	opts.RetryStart = orDuration(opts.RetryStart, time.Second)
	opts.RetryMax = orDuration(opts.RetryMax, 5*time.Minute)
	opts.Resync = orDuration(opts.Resync, 30*time.Second)
	return &Provisioner{client: client, driver: driver, opts: opts, wrong: wrong}
}

// Run gives claims volumes until ctx ends, and returns after all it started has ended. The end of ctx is no error; a missing client
// or driver is one, and so are wrong options, whose fields it names, and that of [Driver.Load]. Whatever the API server answers is tried again. Several provisioners of different drivers may run on one
// cluster.
func (p *Provisioner) Run(ctx context.Context) error {
	if p.client == nil || p.driver == nil {
		return errors.New("run provisioner: client and driver must be given")
	}
	if err := errors.Join(p.wrong, p.driver.Load()); err != nil {
		return fmt.Errorf("run provisioner: %w", err)
	}
	r := &provisionerRun{Provisioner: p, queue: newWorkQueue(p.opts.RetryStart, p.opts.RetryMax), told: map[string]bool{}}
	changed := func(key string, _, _ *unstructured.Unstructured, _ bool) { r.queue.rush(key) }
	r.claims = newObjectFeed(p.client, claimsResource, changed)
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { r.claims.run(ctx, p.opts.Resync) })
	select {
	case <-r.claims.synced:
		r.queue.run(ctx, 0, r.sync)
	case <-ctx.Done():
	}
	return nil
}

// provisionerRun is one Run.
type provisionerRun struct {
	*Provisioner
	claims *objectFeed
	queue  *workQueue

	mu   sync.Mutex // guards told
	told map[string]bool
}

var podsResource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

var storageClassesResource = schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"}

const (
	claimProtection           = "kubernetes.io/pvc-protection"
	restoreFinalizer          = "provisioner.storage.kubernetes.io/volumesnapshot-as-source-protection"
	selectedNodeAnnotation    = "volume.kubernetes.io/selected-node"
	bindCompletedAnnotation   = "pv.kubernetes.io/bind-completed"
	boundByAnnotation         = "pv.kubernetes.io/bound-by-controller"
	provisionerAnnotation     = "volume.kubernetes.io/storage-provisioner"
	provisionedByAnnotation   = "pv.kubernetes.io/provisioned-by"
	defaultStorageAnnotation  = "storageclass.kubernetes.io/is-default-class"
	waitForFirstConsumer      = "WaitForFirstConsumer"
	failedReason, startReason = "ProvisioningFailed", "Provisioning"
)
