package backuptest

import (
	"context"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// restoreFeed knows which snapshots claims are being made from. It follows the claims of the cluster from the first question on,
// so that a controller which deletes nothing asks for no claims, and one that deletes thousands lists them a few times. Where it
// cannot list all of them, a question lists those of the snapshot's namespace.
type restoreFeed struct {
	feed  *objectFeed
	asked chan struct{} // closed by the first question
	ask   func()

	mu     sync.Mutex // guards what follows
	source map[string]string
	claims map[string]int // how many claims of source there are, by snapshot
}

func newRestoreFeed(client dynamic.Interface) *restoreFeed {
	f := &restoreFeed{asked: make(chan struct{}), source: map[string]string{}, claims: map[string]int{}}
	f.ask = sync.OnceFunc(func() { close(f.asked) })
	f.feed = newObjectFeed(client, claimsResource, f.changed)
	return f
}

// run follows the claims from the first question until ctx ends.
func (f *restoreFeed) run(ctx context.Context, resync time.Duration) {
	select {
	case <-f.asked:
		f.feed.run(ctx, resync)
	case <-ctx.Done():
	}
}

func (f *restoreFeed) changed(key string, _, claim *unstructured.Unstructured, gone bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if before := f.source[key]; before != "" {
		delete(f.source, key)
		if f.claims[before]--; f.claims[before] == 0 {
			delete(f.claims, before)
		}
	}
	if from := restoredFrom(claim); from != "" && !gone {
		f.source[key] = from
		f.claims[from]++
	}
}

// isRestoring reports whether a claim is being made from the snapshot; without an answer it is not.
func (f *restoreFeed) isRestoring(ctx context.Context, vs *unstructured.Unstructured) bool {
	f.ask()
	select {
	case <-f.feed.tried:
	case <-ctx.Done():
		return false
	}
	select {
	case <-f.feed.synced:
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.claims[objectKey(vs)] > 0
	default:
	}
	claims, err := f.feed.in(vs.GetNamespace()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false
	}
	return slices.ContainsFunc(claims.Items, func(claim unstructured.Unstructured) bool { return restoredFrom(&claim) == objectKey(vs) })
}

// restoredFrom is the key of the snapshot that a claim waits to be made from, or empty.
func restoredFrom(claim *unstructured.Unstructured) string {
	name := specString(claim, "spec", "dataSource", "name")
	if name == "" || specString(claim, "spec", "dataSource", "kind") != "VolumeSnapshot" || specString(claim, "status", "phase") != "Pending" {
		return ""
	}
	return claim.GetNamespace() + "/" + name
}
