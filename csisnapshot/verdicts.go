package csisnapshot

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// verdictTime is how long a classifier may take before it counts as one that does not return.
const verdictTime = 5 * time.Second

// errNotAsked is why there is no verdict on an error.
var errNotAsked = errors.New("the classifier has not returned from an earlier call")

// asker asks the user's classifier, each time within a bounded time. While a call that was abandoned goes on, no other is
// made, so that a classifier that hangs costs neither time nor a goroutine for every error.
type asker struct {
	classifier Classifier // nil: no error is final
	abandoned  atomic.Int32
}

// ask is the classifier's verdict. The error says that it panicked or did not return; then there is none.
func (a *asker) ask(ctx context.Context, info ErrorInfo) (Verdict, error) {
	if a.abandoned.Load() > 0 {
		return Verdict{}, errNotAsked
	}
	const running, left, returned = 0, 1, 2
	var (
		state   atomic.Int32
		verdict Verdict // not read before the call has returned
	)
	ctx, cancel := context.WithTimeout(ctx, verdictTime)
	defer cancel()
	err := call(ctx, func(context.Context) error {
		defer func() {
			if !state.CompareAndSwap(running, returned) {
				a.abandoned.Add(-1)
			}
		}()
		verdict = a.classifier.Classify(info)
		return nil
	})
	if err == nil {
		return verdict, nil
	}
	if errors.Is(err, ErrAbandoned) && state.CompareAndSwap(running, left) {
		a.abandoned.Add(1)
	}
	return Verdict{}, fmt.Errorf("classifier: %w", err)
}

// within is a classifier that asks within ctx; nil if no error is final.
func (a *asker) within(ctx context.Context) Classifier {
	if a.classifier == nil {
		return nil
	}
	return ClassifierFunc(func(info ErrorInfo) Verdict {
		verdict, _ := a.ask(ctx, info) // none means: information only
		return verdict
	})
}

// question is an error as far as a verdict on it holds; that on an older one of the same kind holds until it is renewed.
type question struct {
	kind, text string
	repeats    int
}

// known is a classifier that tells the verdicts that the entry has, and keeps what it was asked.
func (e *entry) known(asked *[]ErrorInfo) Classifier {
	return ClassifierFunc(func(info ErrorInfo) Verdict {
		*asked = append(*asked, info)
		return e.verdicts[question{info.Kind, info.Text, info.Repeats}]
	})
}

// doubt has the classifier asked. The waiter's lock is held: the classifier is not called here.
func (w *Waiter) doubt(e *entry, asked []ErrorInfo) {
	if e.ended || len(asked) == 0 {
		return
	}
	e.doubts = asked
	if !e.asking {
		e.asking = true
		w.doubtful = append(w.doubtful, e)
		poke(w.ask)
	}
}

// verdictLoop asks the classifier about the errors that were seen, and judges again with its verdicts, until ctx ends.
func (w *Waiter) verdictLoop(ctx context.Context) {
	var group errgroup.Group
	group.SetLimit(readsAtOnce)
	for sleepUntil(ctx, time.Time{}, w.ask) {
		w.mu.Lock()
		doubtful := w.doubtful
		w.doubtful = nil
		w.mu.Unlock()
		for _, e := range doubtful {
			group.Go(func() error { w.decide(ctx, e); return nil })
		}
	}
	_ = group.Wait() // the functions return no error
}

// decide asks about one entry until nothing is in doubt.
func (w *Waiter) decide(ctx context.Context, e *entry) {
	for {
		w.mu.Lock()
		infos := e.doubts
		e.doubts = nil
		e.asking = len(infos) > 0 && !e.ended
		asking := e.asking
		w.mu.Unlock()
		if !asking {
			return
		}
		verdicts := map[question]Verdict{}
		var failed error
		for _, info := range infos {
			verdict, err := w.asker.ask(ctx, info)
			verdicts[question{info.Kind, info.Text, info.Repeats}] = verdict
			failed = errors.Join(failed, err)
		}
		w.mu.Lock()
		if errors.Is(failed, ErrAbandoned) {
			w.unjudged = failed
		}
		e.verdicts = verdicts
		if !e.ended {
			w.judgeAgain(e, time.Now())
		}
		w.mu.Unlock()
		w.publish()
	}
}
