package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// The times between tries, and how many pods are looked after at once.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 2 * time.Second
	podWorkers = 4
)

// pods looks after the pods of one node.
type pods struct {
	client kubernetes.Interface
	node   string
	queue  workqueue.TypedRateLimitingInterface[cache.ObjectName]
	table  *table
}

func newPods(client kubernetes.Interface, node string) *pods {
	queue := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](firstRetry, lastRetry))
	return &pods{client: client, node: node, queue: queue, table: newTable(queue)}
}

// find returns a pod of the node, nil if there is none. It waits for the first list.
func (p *pods) find(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	select {
	case <-p.table.synced:
		return p.table.get(cache.NewObjectName(namespace, name)), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("find pod %s/%s: %w", namespace, name, context.Cause(ctx))
	}
}

// run watches the pods and works until ctx ends.
func (p *pods) run(ctx context.Context) {
	selector := fields.OneTermEqualSelector("spec.nodeName", p.node)
	reflector := cache.NewReflectorWithOptions(
		cache.NewListWatchFromClient(p.client.CoreV1().RESTClient(), "pods", metav1.NamespaceAll, selector),
		&corev1.Pod{}, p.table, cache.ReflectorOptions{
			Name:    "kubelet pods",
			Logger:  new(logr.FromContextOrDiscard(ctx)),
			Backoff: &wait.Backoff{Duration: firstRetry, Cap: lastRetry, Factor: 2, Jitter: 0.5, Steps: 10},
		})
	var wg sync.WaitGroup
	wg.Go(func() { reflector.RunWithContext(ctx) })
	for range podWorkers {
		wg.Go(func() {
			for p.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	p.queue.ShutDown()
	wg.Wait()
}

// next looks after one pod. It is false when the queue has been shut down.
func (p *pods) next(ctx context.Context) bool {
	key, down := p.queue.Get()
	if down {
		return false
	}
	defer p.queue.Done(key)
	err := p.sync(ctx, key)
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		p.queue.Forget(key) // the pod is gone, or another: the watch brings what comes next
		return true
	}
	if ctx.Err() == nil {
		logr.FromContextOrDiscard(ctx).Info("pod is tried again", "pod", key.String(), "error", err.Error())
		p.queue.AddRateLimited(key)
	}
	return true
}

// sync does what one pod needs.
func (p *pods) sync(ctx context.Context, key cache.ObjectName) error {
	pod := p.table.get(key)
	if pod == nil {
		return nil
	}
	if pod.DeletionTimestamp != nil {
		return p.delete(ctx, pod)
	}
	phase, err := wantedPhase(pod)
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "pod is left alone")
		return nil
	}
	if settled(pod, phase) {
		return nil
	}
	return p.patch(ctx, pod, phase)
}

func (p *pods) delete(ctx context.Context, pod *corev1.Pod) error {
	err := p.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)),
		Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if err != nil {
		return fmt.Errorf("delete pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

func (p *pods) patch(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase) error {
	data, err := json.Marshal(struct {
		Metadata map[string]types.UID `json:"metadata"` // a pod of another UID is a conflict
		Status   corev1.PodStatus     `json:"status"`
	}{map[string]types.UID{"uid": pod.UID}, newStatus(pod, phase, metav1.Now())})
	if err != nil {
		return fmt.Errorf("patch status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	_, err = p.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("patch status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
