package csisnapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// holdPod freezes one pod, keeps it frozen until release is closed, its time is over or ctx ends, and thaws it.
func (r *run) holdPod(ctx context.Context, p *podRun, b *batchRun, release <-chan struct{}) {
	defer r.settle(p, b)
	ref, hooks, ok := r.prepare(ctx, p)
	if !ok {
		return
	}
	if err := r.journal.freeze(ctx, ref, firstTitle(hooks)); err != nil {
		r.stop(err)
		r.podFailed(p, err)
		return
	}
	start := time.Now()
	var frozenAt time.Time
	defer func() { r.thawPod(ctx, p, b, ref, hooks.Post, start, frozenAt) }()

	errs, failed := r.runPre(ctx, ref, hooks.Pre)
	frozenAt = time.Now()
	over, stop := holdTime(r.s.opts.MaxFreeze)
	defer stop()
	r.sig.update(func() {
		p.report.Hooked, p.report.UID = true, ref.UID
		p.report.HookErrors = append(p.report.HookErrors, errs...)
		p.err, p.ready = failed, true
		tell(r.events, r.s.opts.Observer.Frozen, PodEvent{Pod: ref, Err: joinHooks(errs)})
		r.proceed(func(p *Progress) { p.FrozenPods++ })
	})
	if failed != nil {
		return
	}
	select {
	case <-release:
	case <-ctx.Done():
	case <-over:
		r.sig.update(func() { p.report.WindowClosed = b.open > 0 })
		r.closeWindow(p, b, ErrWindowClosed)
	}
}

// prepare reads the pod as it is now. It is not ok when nothing will be frozen.
func (r *run) prepare(ctx context.Context, p *podRun) (ref PodRef, hooks PodHooks, ok bool) {
	pod, err := r.readPod(ctx, p.PodRef)
	if err == nil && (pod == nil || ended(pod)) {
		r.podUnhooked(p, "the pod is gone")
		return ref, hooks, false
	}
	if err == nil {
		hooks, err = podHooks(r.s.opts.Quiescer.Hooks, pod)
	}
	if err != nil {
		r.podFailed(p, fmt.Errorf("freeze pod %s: %w", p.PodRef, err))
		return ref, hooks, false
	}
	if hooks.Empty() {
		r.podUnhooked(p, "the pod has no hooks any more")
		return ref, hooks, false
	}
	if note := cannotRun(pod, hooks); note != "" {
		r.podUnhooked(p, note)
		return ref, hooks, false
	}
	return refOf(pod), hooks, true
}

// firstTitle names the hooks in the intent.
func firstTitle(hooks PodHooks) string {
	for _, h := range hooks.Pre {
		return h.title()
	}
	return ""
}

// thawPod runs the post hooks and records the thaw, also when ctx has ended. Every call of holdPod that saved an intent
// comes here once. A post hook that fails leaves the intent open.
func (r *run) thawPod(ctx context.Context, p *podRun, b *batchRun, ref PodRef, post []Hook, start, frozenAt time.Time) {
	if frozenAt.IsZero() {
		frozenAt = time.Now()
	}
	r.closeWindow(p, b, errThawed)
	frozen := time.Since(frozenAt)
	errs, failed := r.runPost(ctx, ref, post)
	total := time.Since(start)
	if failed == nil {
		_ = r.journal.thaw(context.WithoutCancel(ctx), ref, "") // what cannot be saved now is saved with the next intent, or by flush, or is Cut's error
	}
	r.sig.update(func() {
		p.report.Frozen, p.report.Total = frozen, total
		p.report.HookErrors = append(p.report.HookErrors, errs...)
		p.report.Err = errors.Join(p.err, failed)
		tell(r.events, r.s.opts.Observer.Thawed, PodEvent{Pod: ref, Frozen: frozen, Err: joinHooks(errs)})
		r.proceed(func(p *Progress) {
			p.ThawedPods++
			p.FrozenPods--
		})
	})
}

// closeWindow ends the time in which the pod's volumes are cut frozen. Its first call for a pod decides.
func (r *run) closeWindow(p *podRun, b *batchRun, cause error) {
	p.close(cause)
	r.sig.update(func() {
		p.ready = true
		if p.closed {
			return
		}
		p.closed = true
		b.windows--
		if p.report.Hooked {
			r.miss(p, b)
		}
	})
}

// settle ends the pod's part in its batch.
func (r *run) settle(p *podRun, b *batchRun) {
	r.closeWindow(p, b, errThawed)
	r.sig.update(func() {
		b.held--
		b.end = time.Now()
		r.tellEnded(b)
	})
}

// miss notes the volumes of the pod that are not cut. The signal's mutex is held.
func (r *run) miss(p *podRun, b *batchRun) {
	for _, v := range b.volumes {
		if !v.isCut && slices.Contains(v.pods, p) {
			v.notInTime = true
		}
	}
}

// podFailed keeps the pod's volumes from being cut.
func (r *run) podFailed(p *podRun, err error) {
	r.sig.update(func() { p.err, p.report.Err, p.ready = err, err, true })
}

// podUnhooked lets the pod's volumes be cut without a freeze.
func (r *run) podUnhooked(p *podRun, note string) {
	r.sig.update(func() { p.report.Note, p.ready, p.unhooked = note, true, true })
}
