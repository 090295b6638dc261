package kubelet

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// table holds the node's pods as the watch last saw them, and puts the key of each that changed into a queue. It is the
// store of a [cache.Reflector].
type table struct {
	queue  workqueue.TypedRateLimitingInterface[cache.ObjectName]
	synced chan struct{} // closed by the first list

	mu   sync.Mutex
	pods map[cache.ObjectName]*corev1.Pod // guarded by mu; nil until the first list
}

var _ cache.ReflectorStore = (*table)(nil)

func newTable(queue workqueue.TypedRateLimitingInterface[cache.ObjectName]) *table {
	return &table{queue: queue, synced: make(chan struct{})}
}

// get returns a pod, nil if there is none. It must not be changed.
func (t *table) get(key cache.ObjectName) *corev1.Pod {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pods[key]
}

// Add implements cache.ReflectorStore.
func (t *table) Add(obj any) error { return t.Update(obj) }

// Update implements cache.ReflectorStore.
func (t *table) Update(obj any) error {
	pod, key, err := asPod(obj)
	if err != nil {
		return err
	}
	t.mu.Lock()
	if t.pods == nil {
		t.pods = map[cache.ObjectName]*corev1.Pod{}
	}
	t.pods[key] = pod
	t.mu.Unlock()
	t.queue.Add(key)
	return nil
}

// Delete implements cache.ReflectorStore.
func (t *table) Delete(obj any) error {
	_, key, err := asPod(obj)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pods, key)
	return nil
}

// Replace implements cache.ReflectorStore.
func (t *table) Replace(list []any, _ string) error {
	pods := make(map[cache.ObjectName]*corev1.Pod, len(list))
	for _, obj := range list {
		pod, key, err := asPod(obj)
		if err != nil {
			return err
		}
		pods[key] = pod
	}
	t.mu.Lock()
	t.pods = pods
	select {
	case <-t.synced:
	default:
		close(t.synced)
	}
	t.mu.Unlock()
	for key := range pods {
		t.queue.Add(key)
	}
	return nil
}

// Resync implements cache.ReflectorStore.
func (t *table) Resync() error { return nil }

func asPod(obj any) (*corev1.Pod, cache.ObjectName, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, cache.ObjectName{}, fmt.Errorf("watch pods: got a %T", obj)
	}
	return pod, cache.MetaObjectToName(pod), nil
}
