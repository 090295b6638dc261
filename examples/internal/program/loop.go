package program

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/phase"
)

// RunToEnd is the loop that a controller's workqueue would be: it calls step until that is done. A step that failed is tried
// again a few times; whatever is left then, a later run resumes.
func RunToEnd(ctx context.Context, step func(context.Context) (done bool, requeueAfter time.Duration, err error)) error {
	patience := func() wait.Backoff {
		return wait.Backoff{Duration: time.Second, Factor: 2, Steps: 6, Cap: 30 * time.Second}
	}
	retry := patience()
	for {
		done, pause, err := step(ctx)
		switch {
		case ctx.Err() != nil:
			return stopped(context.Cause(ctx))
		case final(err), err != nil && retry.Steps == 0:
			return err
		case err != nil:
			pause = retry.Step()
		case done:
			return nil
		default:
			retry = patience()
		}
		if err := pauseFor(ctx, pause); err != nil {
			return stopped(err)
		}
	}
}

func stopped(cause error) error {
	return fmt.Errorf("stopped (%w); run again with the same -name and -store to resume", cause)
}

// final are the errors that no later try can mend.
func final(err error) bool {
	return errors.Is(err, phase.ErrForeignRecord) || errors.Is(err, operations.ErrForeignRecord) || errors.Is(err, phase.ErrInvalid)
}

func pauseFor(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
