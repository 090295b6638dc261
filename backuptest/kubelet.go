package backuptest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// KubeletOptions say how pods end. The zero KubeletOptions end each at once, on every node.
type KubeletOptions struct {
	// Node is the node whose pods are ended. Empty means every node.
	Node string
	// Stopping is how long a pod takes to stop once it is deleted, at most its grace period. Nil means no time.
	Stopping func(pod *corev1.Pod) time.Duration
}

// Kubelet ends the pods of nodes as kubelets do: a pod that is bound to a node and deleted stays, with a deletion time, until
// its node has stopped it and deletes it without grace. That is all a Kubelet does; nothing starts pods. Without one, such
// pods stay for ever, unless they are deleted with grace period 0. Make one with [NewKubelet].
type Kubelet struct {
	core kubernetes.Interface
	opts KubeletOptions
}

// NewKubelet makes a kubelet on a client, which may not be nil. To start it call [Kubelet.Run].
func NewKubelet(core kubernetes.Interface, opts KubeletOptions) (*Kubelet, error) {
	if core == nil {
		return nil, errors.New("new kubelet: the client is nil")
	}
	return &Kubelet{core: core, opts: opts}, nil
}

// Run ends pods until ctx ends, and returns the cause of that. Requests that fail and watches that end are begun again each
// second. All goroutines it starts have ended when it returns. A Kubelet that [NewKubelet] did not make is an error.
func (k *Kubelet) Run(ctx context.Context) error {
	if k.core == nil {
		return errors.New("run kubelet: the client is nil")
	}
	stopping := &sync.WaitGroup{}
	defer stopping.Wait()
	begun := map[types.UID]bool{}
	for ctx.Err() == nil {
		if err := k.follow(ctx, stopping, begun); err != nil && ctx.Err() == nil {
			logr.FromContextOrDiscard(ctx).V(1).Info("kubelet", "err", err)
		}
		_ = wait(ctx, gcPause) // also after a watch that ended, since the next one may end at once
	}
	return context.Cause(ctx)
}

func (k *Kubelet) follow(ctx context.Context, stopping *sync.WaitGroup, begun map[types.UID]bool) error {
	pods := k.core.CoreV1().Pods(metav1.NamespaceAll)
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	see := func(pod *corev1.Pod) {
		if pod.DeletionTimestamp == nil || pod.Spec.NodeName == "" || k.opts.Node != "" && pod.Spec.NodeName != k.opts.Node || begun[pod.UID] {
			return
		}
		begun[pod.UID] = true
		stopping.Go(func() { k.end(ctx, pod) })
	}
	for i := range list.Items {
		see(&list.Items[i])
	}
	w, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return err
	}
	return eachEvent(ctx, w, func(e watch.Event) {
		if pod, ok := e.Object.(*corev1.Pod); ok && e.Type != watch.Deleted {
			see(pod)
		}
	})
}

// end waits until a pod has stopped and deletes it for good.
func (k *Kubelet) end(ctx context.Context, pod *corev1.Pod) {
	if k.opts.Stopping != nil {
		stops := min(k.opts.Stopping(pod.DeepCopy()), time.Until(pod.DeletionTimestamp.Time))
		if wait(ctx, stops) != nil {
			return
		}
	}
	for ctx.Err() == nil {
		err := k.core.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64(0)), Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
		})
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return
		}
		logr.FromContextOrDiscard(ctx).V(1).Info("kubelet", "err", fmt.Errorf("end pod %s/%s: %w", pod.Namespace, pod.Name, err))
		_ = wait(ctx, gcPause)
	}
}
