package backuptest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

const (
	// RealRate is the rate of the real snapshot-controller and sidecar with their default flags. One snapshot costs the
	// snapshot-controller nine requests, so that it takes about 0.55 snapshots a second however fast the storage is.
	RealRate = 5
	// RealWorkers is how many CreateSnapshot calls the real sidecar has under way at once.
	RealWorkers = 10

	snapshotWorkers = 10 // as the real snapshot-controller
)

// ControllerOptions configure a [SnapshotController]. The zero value is one that is as fast as its API server and has no script.
type ControllerOptions struct {
	// Scripts tell what the storage does with the snapshots of a claim, by "NAMESPACE/NAME" or by "NAME" for claims of that name in
	// every namespace; the longer form goes first.
	Scripts map[string]Script
	// Rate is how many requests on snapshots and contents a second the snapshot-controller makes, and as many the sidecar, with
	// bursts of twice that, counted as the real ones would need them. 0: no limit. [RealRate] is the default of a real cluster.
	Rate float64
	// Workers is how many CreateSnapshot calls are under way at once. 0: no limit. [RealWorkers] is that of a real cluster.
	Workers int
	// Groups lets the controller take VolumeGroupSnapshots, too, of version v1beta2, which the cluster must serve. Groups made by
	// hand are left alone, and the rate does not count them.
	Groups bool
	// CallTimeout ends a CreateSnapshot call, as the sidecar's --timeout. 0: one minute.
	CallTimeout time.Duration
	// RetryStart and RetryMax bound the time between two tries, which doubles. 0: one second and five minutes.
	RetryStart, RetryMax time.Duration
	// Resync is the time after which everything is listed again in case a watch lost something. 0: 30 seconds.
	Resync time.Duration
	// Clock tells the time that is recorded in statuses and events. Nil: time.Now.
	Clock func() time.Time
}

// SnapshotController takes snapshots through the same transitions as the real snapshot-controller and its csi-snapshotter sidecar
// together: finalizers, annotations, statuses, texts and events, in their order, with the times between them that the storage and
// the rate need.
//
// It keeps no state of its own that matters: another controller on the same cluster and driver continues from what it finds,
// and takes no second physical snapshot of a VolumeSnapshot. It works on the server of [Start] and on client-go's fake dynamic
// client; as that one deletes objects whatever their finalizers say, only creation is real there.
type SnapshotController struct {
	client dynamic.Interface
	driver *Driver
	opts   ControllerOptions
	wrong  error // what is wrong with the options

	mu       sync.Mutex // guards what follows
	scripts  map[string]Script
	happened map[string]bool // incidents, by the key of the snapshot and their number
}

// NewSnapshotController returns a controller that takes the snapshots of a cluster with a driver. Nothing happens before
// [SnapshotController.Run].
func NewSnapshotController(client dynamic.Interface, driver *Driver, opts ControllerOptions) *SnapshotController {
	wrong := opts.wrong()
	opts.CallTimeout = orDuration(opts.CallTimeout, time.Minute)
	opts.RetryStart = orDuration(opts.RetryStart, time.Second)
	opts.RetryMax = orDuration(opts.RetryMax, 5*time.Minute)
	opts.Resync = orDuration(opts.Resync, 30*time.Second)
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	scripts := maps.Clone(opts.Scripts)
	if scripts == nil {
		scripts = map[string]Script{}
	}
	return &SnapshotController{client: client, driver: driver, opts: opts, wrong: wrong, scripts: scripts, happened: map[string]bool{}}
}

// SetScript replaces the script of a claim, "NAMESPACE/NAME" or "NAME", from the next CSI call on. It may be called while the
// controller runs; what waits for a retry waits on, and a claim that was silent is looked at after the resync time. The driver
// refuses the calls of a script with a wrong value as InvalidArgument.
func (c *SnapshotController) SetScript(claim string, script Script) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scripts[claim] = script
}

// Run takes snapshots until ctx ends, and returns after all it started has ended. The end of ctx is no error. It returns an
// error that names each wrong field of the options, or the error of [Driver.Load]; whatever the API server answers is tried again, also that there are no snapshot
// APIs. One controller must not run twice at the same time.
func (c *SnapshotController) Run(ctx context.Context) error {
	if c.client == nil || c.driver == nil {
		return errors.New("run snapshot controller: client and driver must be given")
	}
	if err := errors.Join(c.wrong, c.driver.Load()); err != nil {
		return fmt.Errorf("run snapshot controller: %w", err)
	}
	newControllerRun(c).run(ctx)
	return nil
}

// controllerRun is one Run: what it has read and what it has queued.
type controllerRun struct {
	*SnapshotController
	snapshots, contents *objectFeed
	snapshotQueue       *workQueue // of the snapshot-controller: keys of snapshots, and of contents with contentKeyPrefix
	contentQueue        *workQueue // of the sidecar
	incidentQueue       *workQueue

	claims *restoreFeed // of claims that are made from snapshots

	groups, groupContents         *objectFeed // nil without groups
	groupQueue, groupContentQueue *workQueue
	started                       time.Time
	snapshotRate                  *requestRate
	contentRate                   *requestRate

	memo sync.Mutex // guards what follows
	// sources knows the claims of contents, by content.
	sources map[string]contentSource
	// fresh holds the snapshots, by memoKey, whose content this run made and whose status does not name it yet.
	fresh map[string]bool
	// released holds the ready snapshots, by memoKey, whose claim has been looked at.
	released map[string]bool
	// unready holds the snapshots, by memoKey, of each claim that are not ready.
	unready map[types.NamespacedName]map[string]bool
	// removing holds the names of contents whose physical snapshot is being deleted.
	removing map[string]bool
	// trapped holds, by name, what the sidecar knew of contents whose deletion it missed.
	trapped map[string]trap
	// hidden holds, by the name of a content, the driver's error that only its snapshot shows.
	hidden map[string]map[string]any
	// looked holds, by name, what the sidecar minded of contents when it looked last.
	looked map[string]string
	// muted holds, by memoKey, until when a status is left as it is.
	muted map[string]time.Time
	// readySince holds, by memoKey, when snapshots without a late finalizer were seen ready first.
	readySince map[string]time.Time
	events     int
}

const contentKeyPrefix = "content:"

func newControllerRun(c *SnapshotController) *controllerRun {
	r := &controllerRun{
		SnapshotController: c,
		sources:            map[string]contentSource{},
		fresh:              map[string]bool{},
		released:           map[string]bool{},
		unready:            map[types.NamespacedName]map[string]bool{},
		removing:           map[string]bool{},
		trapped:            map[string]trap{},
		hidden:             map[string]map[string]any{},
		looked:             map[string]string{},
		muted:              map[string]time.Time{},
		readySince:         map[string]time.Time{},
		started:            time.Now(),
		incidentQueue:      newWorkQueue(c.opts.RetryStart, c.opts.RetryMax),
		snapshotQueue:      newWorkQueue(c.opts.RetryStart, c.opts.RetryMax),
		contentQueue:       newWorkQueue(c.opts.RetryStart, c.opts.RetryMax),
		snapshotRate:       newRequestRate(c.opts.Rate),
		contentRate:        newRequestRate(c.opts.Rate),
	}
	r.snapshots = newObjectFeed(c.client, snapshotsResource, r.snapshotChanged)
	r.contents = newObjectFeed(c.client, contentsResource, r.contentChanged)
	r.claims = newRestoreFeed(c.client)
	if c.opts.Groups {
		r.groupQueue = newWorkQueue(c.opts.RetryStart, c.opts.RetryMax)
		r.groupContentQueue = newWorkQueue(c.opts.RetryStart, c.opts.RetryMax)
		r.groups = newObjectFeed(c.client, groupsResource, r.groupChanged)
		r.groupContents = newObjectFeed(c.client, groupContentsResource, r.groupContentChanged)
	}
	return r
}

func (r *controllerRun) run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	feeds := []*objectFeed{r.snapshots, r.contents}
	if r.groups != nil {
		feeds = append(feeds, r.groups, r.groupContents)
	}
	for _, feed := range feeds {
		all.Go(func() { feed.run(ctx, r.opts.Resync) })
	}
	all.Go(func() { r.claims.run(ctx, r.opts.Resync) })
	for _, feed := range feeds {
		select {
		case <-feed.synced:
		case <-ctx.Done():
			return
		}
	}
	workers := snapshotWorkers
	if r.snapshotRate != nil {
		workers = 1 // the rate is the limit, and one worker keeps the order of the queue
	}
	all.Go(func() { r.snapshotQueue.run(ctx, workers, r.syncSnapshotKey) })
	all.Go(func() { r.contentQueue.run(ctx, r.opts.Workers, r.syncContent) })
	all.Go(func() { r.incidentQueue.run(ctx, 1, r.haveIncident) })
	if r.groups != nil {
		all.Go(func() { r.groupQueue.run(ctx, snapshotWorkers, r.syncGroup) })
		all.Go(func() { r.groupContentQueue.run(ctx, r.opts.Workers, r.syncGroupContent) })
	}
}

func (r *controllerRun) now() time.Time { return r.opts.Clock() }

func orDuration(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}
