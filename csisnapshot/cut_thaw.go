package csisnapshot

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// thawWorkers is how many leftover pods are thawed at the same time.
const thawWorkers = 8

// thawLeftovers thaws every pod that has a freeze intent without a thaw record, whoever froze it. It returns an error only
// when it could not find out what became of a pod, or the records cannot be saved; a post hook that fails is in the report.
func (r *run) thawLeftovers(ctx context.Context) ([]ThawReport, error) {
	open := r.journal.open()
	if len(open) == 0 {
		return nil, nil
	}
	if r.s.opts.Quiescer == nil {
		return nil, fmt.Errorf("%w: pod %s was left frozen and there is no Quiescer to thaw it", ErrIntents, open[0].ref())
	}
	reports := make([]ThawReport, len(open))
	errs := make([]error, len(open))
	var group errgroup.Group
	group.SetLimit(thawWorkers)
	for n, i := range open {
		group.Go(func() error {
			reports[n], errs[n] = r.thawLeftover(ctx, i)
			return nil
		})
	}
	_ = group.Wait() // the functions return no error
	return reports, errors.Join(errs...)
}

// thawLeftover thaws one pod. One that is not begun when ctx ends is left as it is; one that is begun is thawed and
// recorded all the same, for only a whole thaw may be recorded.
func (r *run) thawLeftover(ctx context.Context, i intent) (ThawReport, error) {
	report := ThawReport{
		Pod: i.ref(), Owner: Owner{UID: i.Owner.UID, Namespace: i.Owner.Namespace, Name: i.Owner.Name}, FrozenAt: i.FrozenAt,
	}
	pod, err := r.readPod(ctx, i.ref())
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	switch {
	case err != nil:
		report.Outcome, report.Err = ThawFailed, err
		return report, fmt.Errorf("thaw pod %s, left frozen: %w", i.ref(), err)
	case pod == nil || pod.UID == i.PodUID && ended(pod):
		report.Outcome = ThawPodGone
	case pod.UID != i.PodUID:
		report.Outcome = ThawPodRecreated
	default:
		report.Outcome, report.Err = r.runLeftover(ctx, i.ref(), pod)
	}
	tell(r.events, r.s.opts.Observer.Thawed, PodEvent{Pod: i.ref(), Leftover: true, Err: report.Err})
	if report.Outcome == ThawFailed {
		return report, nil
	}
	if err := r.journal.thaw(context.WithoutCancel(ctx), i.ref(), string(report.Outcome)); err != nil {
		return report, fmt.Errorf("record that pod %s is thawed: %w", i.ref(), err)
	}
	return report, nil
}

// runLeftover runs the post hooks that the pod has now. They are not taken from the intent: what a store holds must not
// become a command.
func (r *run) runLeftover(ctx context.Context, ref PodRef, pod *corev1.Pod) (ThawOutcome, error) {
	hooks, err := podHooks(r.s.opts.Quiescer.Hooks, pod)
	if err != nil {
		return ThawFailed, fmt.Errorf("hooks of pod %s: %w", ref, err)
	}
	errs, failed := r.runPost(ctx, ref, hooks.Post)
	if failed != nil {
		return ThawFailed, joinHooks(errs)
	}
	return ThawDone, joinHooks(errs)
}

// readPod reads a pod; nil when there is none.
func (r *run) readPod(ctx context.Context, ref PodRef) (*corev1.Pod, error) {
	var pod *corev1.Pod
	err := retry(ctx, r.s.opts.Wait.Timeout, func(ctx context.Context) (err error) {
		pod, err = r.s.core.CoreV1().Pods(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		return err
	})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // an absent pod is an answer, not an error
	case err != nil:
		return nil, fmt.Errorf("read pod %s: %w", ref, err)
	}
	return pod, nil
}

// joinHooks is nil for no errors.
func joinHooks(errs []*HookError) error {
	var all []error
	for _, e := range errs {
		all = append(all, e)
	}
	return errors.Join(all...)
}
