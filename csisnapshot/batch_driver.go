package csisnapshot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// DriverLimits keep what is behind a CSI driver from being overrun: the APIs of clouds throttle. They count in one Cut, over
// all its batches, what it finds of an earlier one included. The zero value limits nothing.
//
// A pod is not frozen before its driver has places for the pod's volumes, or for as many as the limit allows, and its time
// has come; what is over the limit waits while the pod is frozen.
type DriverLimits struct {
	// InFlight is how many snapshots may be sent and not yet cut. Zero: no limit.
	InFlight int
	// Every is the shortest time between the creates of two snapshots. Zero: no limit.
	Every time.Duration
	// PerVolume is how many snapshots the storage keeps of one volume. A volume that has as many VolumeSnapshots in its
	// namespace, whoever made them, is not tried and is [ErrVolumeFull]. What has no VolumeSnapshot any more, as after a
	// Release, is not seen. Zero: not looked at; else one list of each namespace is read.
	PerVolume int
}

// ErrVolumeFull says that no snapshot was taken because the volume has as many as [DriverLimits.PerVolume] allows.
var ErrVolumeFull = errors.New("the volume has as many snapshots as its driver keeps")

// limitsOf are the limits of a driver: its own, or those for every driver that is not named.
func (o Options) limitsOf(driver string) DriverLimits {
	if limits, ok := o.Drivers[driver]; ok {
		return limits
	}
	return o.Drivers[""]
}

// validate returns all faults, each naming its field.
func (l DriverLimits) validate(driver string) (errs []error) {
	field := fmt.Sprintf("Options.Drivers[%q]", driver)
	if l.InFlight < 0 {
		errs = append(errs, fmt.Errorf("%s.InFlight: negative", field))
	}
	if l.PerVolume < 0 {
		errs = append(errs, fmt.Errorf("%s.PerVolume: negative", field))
	}
	return append(errs, notNegative(field+".Every", l.Every))
}

// driverPace is what keeps the creates of one driver apart. The run's signal guards it.
type driverPace struct {
	inFlight int       // places that are taken
	next     time.Time // the earliest time of the next create
	paused   time.Time // the classifier expects no progress before
}

// pace is the driver's. The signal's mutex is held.
func (r *run) pace(driver string) *driverPace {
	p := r.paces[driver]
	if p == nil {
		p = &driverPace{}
		r.paces[driver] = p
	}
	return p
}

// inFlight is 1 while the volume takes a place of its driver.
func (v *volumeRun) inFlight() int {
	if (v.placed || v.snapshot != nil) && !v.ended {
		return 1
	}
	return 0
}

// awaitDrivers waits until the drivers of a batch take its snapshots at once, and keeps their places for them: a pod is not
// frozen to wait for what other volumes do. Places come free at the latest when what is in flight times out.
func (r *run) awaitDrivers(ctx context.Context, b *batchRun) error {
	byDriver := map[string][]*volumeRun{}
	for _, v := range b.unsent(r) {
		byDriver[v.Driver] = append(byDriver[v.Driver], v)
	}
	for _, driver := range slices.Sorted(maps.Keys(byDriver)) {
		volumes := byDriver[driver]
		if limit := r.s.opts.limitsOf(driver).InFlight; limit > 0 {
			volumes = volumes[:min(len(volumes), limit)]
			if err := r.sig.await(ctx, func() bool { return r.takePlaces(driver, volumes, limit) }); err != nil {
				return err
			}
		}
	}
	for _, driver := range slices.Sorted(maps.Keys(byDriver)) {
		stalled := r.waiter.Stalled(driver)
		for at := r.mayCreate(driver); time.Now().Before(at) && !isClosed(stalled); at = r.mayCreate(driver) {
			if !sleepUntil(ctx, at, stalled) {
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// takePlaces gives the volumes places of their driver if there are enough. The signal's mutex is held.
func (r *run) takePlaces(driver string, volumes []*volumeRun, limit int) bool {
	p := r.pace(driver)
	if p.inFlight+len(volumes) > limit {
		return false
	}
	for _, v := range volumes {
		if before := v.inFlight(); !v.ended {
			v.placed = true
			p.inFlight += v.inFlight() - before
		}
	}
	return true
}

// mayCreate is the earliest time of the driver's next create.
func (r *run) mayCreate(driver string) (at time.Time) {
	r.sig.read(func() { at = r.pace(driver).earliest() })
	return at
}

func (p *driverPace) earliest() time.Time {
	if p.paused.After(p.next) {
		return p.paused
	}
	return p.next
}

// awaitPlace waits until the volume has a place of its driver.
func (r *run) awaitPlace(window context.Context, v *volumeRun) error {
	limit := r.s.opts.limitsOf(v.Driver).InFlight
	if limit == 0 {
		return nil
	}
	return r.sig.await(window, func() bool { return v.placed || r.takePlaces(v.Driver, []*volumeRun{v}, limit) })
}

// awaitTurn waits until the driver may be sent the next snapshot. It returns early, and nil, when the driver is stalled.
func (r *run) awaitTurn(window context.Context, driver string) error {
	every, stalled := r.s.opts.limitsOf(driver).Every, r.waiter.Stalled(driver)
	for !isClosed(stalled) {
		now := time.Now()
		var at time.Time
		r.sig.read(func() {
			p := r.pace(driver)
			if at = p.earliest(); at.Before(now) {
				at = now
			}
			if every > 0 {
				p.next = at.Add(every)
			}
		})
		if at.After(now) && !sleepUntil(window, at, stalled) {
			return context.Cause(window)
		}
		paused := false
		r.sig.read(func() { paused = time.Now().Before(r.pace(driver).paused) })
		if !paused {
			return nil
		}
	}
	return nil
}

// heeding is the user's classifier, whose times without progress hold up the creates of the driver, too; nil for none.
func (r *run) heeding(c Classifier) Classifier {
	if c == nil {
		return nil
	}
	return ClassifierFunc(func(e ErrorInfo) Verdict {
		verdict := c.Classify(e)
		if until := time.Now().Add(verdict.RetryAfter - e.Age); verdict.RetryAfter > 0 {
			r.sig.update(func() {
				if p := r.pace(e.Driver); until.After(p.paused) {
					p.paused = until
				}
			})
		}
		return verdict
	})
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
