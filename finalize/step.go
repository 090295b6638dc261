package finalize

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
)

// run is the loop of a step: take what has ended, record it, start what can start, wait for the next end.
func (r *Runner) run(ctx context.Context) (Result, error) {
	clear(r.called)
	for {
		unended := r.unended()
		r.collect(ctx)
		r.expire()
		r.skip()
		r.save(ctx)
		for _, h := range unended {
			if r.state.Hooks[h.Name].State.Ended() {
				delete(r.pauses, h.Name)
				r.opts.Observer.ended(ctx, r.hookReport(h))
			}
		}
		mayStart := ctx.Err() == nil && (r.saveErr == nil || r.overdue())
		if mayStart {
			r.start(ctx)
		}
		if r.running() == 0 {
			break
		}
		r.await(ctx, mayStart)
	}
	switch {
	case len(r.unended()) == 0 && (r.saveErr == nil || r.overdue()):
		return Result{Done: true, Report: r.report()}, nil
	case ctx.Err() != nil:
		return Result{Report: r.report()}, fmt.Errorf("finalize: %w", context.Cause(ctx))
	case r.saveErr != nil && !r.overdue():
		return Result{Report: r.report()}, r.saveErr
	}
	return Result{RequeueAfter: r.requeue(), Report: r.report()}, nil
}

// collect takes the results of the calls that have ended and abandons those whose time is over.
func (r *Runner) collect(ctx context.Context) {
	now := time.Now()
	for _, h := range r.hooks {
		c, m := r.calls[h.Name], r.state.Hooks[h.Name]
		switch {
		case c == nil:
		case c.ended():
			c.cancel()
			delete(r.calls, h.Name)
			if !c.stale { // else it outlived its step: the result is dropped and the hook called again
				r.take(ctx, h, m, c)
			}
		case !now.Before(c.hard) && !m.State.Ended() && (!c.stale || ctx.Err() == nil):
			c.cancel()
			c.stale = true // and stays in calls until it returns, so that there is never a second one
			m.Attempts++
			m.end(Abandoned, []Entry{{Message: errAbandoned.Error()}}, c.took())
			logr.FromContextOrDiscard(ctx).Error(errAbandoned, "hook abandoned", "hook", h.Name)
		}
	}
}

// take judges a call that returned in the step that made it.
func (r *Runner) take(ctx context.Context, h Hook, m *mark, c *call) {
	err := c.err
	list := entries(err, false)
	later, isLater := errors.AsType[*laterError](err)
	switch {
	case isLater:
		r.pause(ctx, h, pause{until: time.Now().Add(later.after), why: later.why, later: true, items: list})
	case !failed(list):
		m.Attempts++
		m.end(Succeeded, list, c.took())
	case ctx.Err() != nil && !c.timedOut():
		// Cut off by the caller: no attempt.
	default:
		if c.timedOut() {
			list = timeout(h, err, list)
		}
		m.Attempts++
		if m.Attempts > h.Retries || r.overdue() || errors.Is(err, ErrPermanent) {
			m.end(Failed, list, c.took())
			return
		}
		m.DurationMS += c.took()
		m.Error = summary(list)
		r.pause(ctx, h, pause{until: time.Now().Add(backoff(m.Attempts)), why: m.Error})
	}
}

// timeout puts the hook's timeout before the entries of its error, and leaves out those that only repeat it.
func timeout(h Hook, err error, list []Entry) []Entry {
	if errors.Is(err, ErrTimeout) || errors.Is(err, context.DeadlineExceeded) {
		list = slices.DeleteFunc(list, func(e Entry) bool { return e.Name == "" && !e.Warning })
	}
	return append([]Entry{{Message: fmt.Sprintf("%v after %v", ErrTimeout, h.timeout())}}, list...)
}

func (r *Runner) pause(ctx context.Context, h Hook, p pause) {
	r.pauses[h.Name] = p
	r.opts.Observer.waiting(ctx, h.Name, p.why, time.Until(p.until))
}

func (m *mark) end(state State, list []Entry, tookMS int64) {
	m.State, m.Items, m.Error = state, shorten(list), summary(list)
	m.DurationMS += tookMS
}

func (c *call) took() int64 { return time.Since(c.started).Milliseconds() }

// expire ends the hooks that wait or failed when MaxTotal has passed: none is called again.
func (r *Runner) expire() {
	if !r.overdue() {
		return
	}
	for _, h := range r.hooks {
		m := r.state.Hooks[h.Name]
		p, paused := r.pauses[h.Name]
		if m.State.Ended() || r.calls[h.Name] != nil || !paused && m.Attempts == 0 {
			continue
		}
		message := m.Error
		if p.later {
			message = fmt.Sprintf("gave up after %v: waited for: %s", r.opts.MaxTotal, p.why)
		}
		m.end(Failed, append([]Entry{{Message: message}}, p.items...), 0)
	}
}

// skip ends the hooks that need one that has ended without success.
func (r *Runner) skip() {
	for _, h := range r.hooks { // in order, so that a skip is seen by those after it
		m := r.state.Hooks[h.Name]
		if m.State.Ended() || r.calls[h.Name] != nil {
			continue
		}
		for _, name := range h.Needs {
			if state := r.state.Hooks[name].State; state.Ended() && state != Succeeded {
				m.end(Skipped, []Entry{{Message: fmt.Sprintf("skipped: it needs %s, which is %s", name, state)}}, 0)
				break
			}
		}
	}
}

// start calls the hooks that are due, in order, up to the limit.
func (r *Runner) start(ctx context.Context) {
	soFar := context.WithValue(ctx, soFarKey{}, r.report())
	now := time.Now()
	for _, h := range r.hooks {
		if r.running() >= r.opts.Parallelism {
			return
		}
		m := r.state.Hooks[h.Name]
		if m.State.Ended() || r.calls[h.Name] != nil || now.Before(r.pauses[h.Name].until) || !r.clear(h) || !r.mayCall(h.Name) {
			continue
		}
		delete(r.pauses, h.Name)
		r.opts.Observer.started(ctx, h.Name, m.Attempts+1)
		r.calls[h.Name] = begin(soFar, h.timeout(), r.opts.Grace, h.Run, func() {
			select {
			case r.wake <- struct{}{}:
			default:
			}
		})
		r.calls[h.Name].first = !r.called[h.Name]
		r.called[h.Name] = true
	}
}

// mayCall reports whether the hook has not been called in this step, or another's first call is still out. Without that
// bound two hooks that wait longer than they pause would keep a step busy for ever.
func (r *Runner) mayCall(name string) bool {
	if !r.called[name] {
		return true
	}
	for _, c := range r.calls {
		if c.first && !c.stale && !c.ended() {
			return true
		}
	}
	return false
}

// clear reports whether everything before h has ended.
func (r *Runner) clear(h Hook) bool {
	return !slices.ContainsFunc(h.before(), func(name string) bool { return !r.state.Hooks[name].State.Ended() })
}

// running counts the calls of this step.
func (r *Runner) running() (n int) {
	for _, c := range r.calls {
		if !c.stale {
			n++
		}
	}
	return n
}

// unended returns the hooks that have not ended.
func (r *Runner) unended() (hooks []Hook) {
	for _, h := range r.hooks {
		if !r.state.Hooks[h.Name].State.Ended() {
			hooks = append(hooks, h)
		}
	}
	return hooks
}

// await returns when a call has ended, is to be abandoned, or a waiting hook is due and may start. When ctx has ended, it
// waits no longer than the grace and leaves the calls that ignore it as stale.
func (r *Runner) await(ctx context.Context, mayStart bool) {
	if ctx.Err() != nil {
		r.drain()
		return
	}
	next := time.Now().Add(time.Hour)
	for _, c := range r.calls {
		if !c.stale && c.hard.Before(next) {
			next = c.hard
		}
	}
	for name, p := range r.pauses {
		if mayStart && p.until.Before(next) && r.running() < r.opts.Parallelism && r.mayCall(name) {
			next = p.until
		}
	}
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	select {
	case <-r.wake:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// drain waits for the calls of this step, whose context has ended, for the grace.
func (r *Runner) drain() {
	grace := time.NewTimer(r.opts.Grace)
	defer grace.Stop()
	for r.out() {
		select {
		case <-r.wake:
		case <-grace.C:
			for _, c := range r.calls {
				if !c.stale && !c.ended() {
					c.stale, c.hard = true, time.Now()
				}
			}
			return
		}
	}
}

// out reports whether a call of this step has not returned.
func (r *Runner) out() bool {
	for _, c := range r.calls {
		if !c.stale && !c.ended() {
			return true
		}
	}
	return false
}

// requeue is the time until something can be done: a pause ends, a call of an earlier step is to be abandoned or looked
// for, or MaxTotal passes.
func (r *Runner) requeue() time.Duration {
	wait := max(r.left(), 0)
	if r.overdue() {
		wait = time.Second
	}
	for _, p := range r.pauses {
		wait = min(wait, time.Until(p.until))
	}
	for name := range r.calls {
		if !r.state.Hooks[name].State.Ended() {
			wait = min(wait, time.Second)
		}
	}
	return max(wait, time.Millisecond)
}
