package backuptest

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// wait waits for d or the end of ctx, of which it returns the cause.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// eachEvent calls see with each event of a watch but errors and bookmarks, and stops the watch. It returns nil when the watch
// ends, the error that it tells, or the cause of ctx.
func eachEvent(ctx context.Context, w watch.Interface, see func(watch.Event)) error {
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case e, open := <-w.ResultChan():
			switch {
			case !open:
				return nil
			case e.Type == watch.Error:
				return apierrors.FromObject(e.Object)
			case e.Type != watch.Bookmark:
				see(e)
			}
		}
	}
}
