package csisnapshot

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// awaitGone waits until those of the volumes' earlier snapshots that are being deleted are gone, so that a freeze does not
// wait for them. It ends the volumes whose snapshots stay: all of a run share one Timeout, which begins again when one of
// them goes. It returns when none is left, or ctx has ended.
func (r *run) awaitGone(ctx context.Context, volumes []*volumeRun) {
	start := time.Now()
	for {
		left := leaving(volumes)
		if len(left) == 0 {
			return
		}
		err := r.seeGone(ctx, left)
		limit := r.leavingSince.Add(r.s.opts.Wait.Timeout)
		left = leaving(left)
		switch {
		case len(left) == 0 || ctx.Err() != nil:
			return
		case err != nil || !time.Now().Before(limit):
			for _, v := range left {
				r.stays(v, err)
			}
			return
		}
		next := start.Add(r.s.opts.Wait.Schedule.Next(time.Since(start)))
		if next.After(limit) {
			next = limit
		}
		if !pause(ctx, time.Until(next)) {
			return
		}
	}
}

// seeGone lists the owner's snapshots once for each namespace of the volumes, and notes which are gone.
func (r *run) seeGone(ctx context.Context, volumes []*volumeRun) error {
	there := map[Ref]types.UID{}
	for _, namespace := range namespacesOf(volumes) {
		found, err := r.listOwn(ctx, namespace)
		if err != nil {
			return err
		}
		for _, s := range found {
			if s.Terminating() {
				there[s.Ref()] = s.UID
			}
		}
	}
	for _, v := range volumes {
		if there[v.ref] != v.leaving {
			v.leaving, r.leavingSince = "", time.Now()
		}
	}
	return nil
}

// stays ends a volume whose earlier snapshot does not go.
func (r *run) stays(v *volumeRun, err error) {
	if err == nil {
		err = errLeaving
	}
	r.fail(v, &WaitError{
		Ref: v.ref, UID: v.leaving, Driver: v.Driver, Stage: StageCut, Ended: time.Now(), Category: ErrTimeout, Err: err,
	})
	v.leaving = ""
}

// leaving are the volumes that have an earlier snapshot which is being deleted.
func leaving(volumes []*volumeRun) []*volumeRun {
	var all []*volumeRun
	for _, v := range volumes {
		if v.leaving != "" {
			all = append(all, v)
		}
	}
	return all
}
