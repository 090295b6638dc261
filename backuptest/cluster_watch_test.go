package backuptest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

// seen reads what a watch has to say until nothing more comes, as "TYPE name".
func seen(t *testing.T, w watch.Interface) (events []string, open bool) {
	t.Helper()
	for {
		synctest.Wait()
		select {
		case e, ok := <-w.ResultChan():
			if !ok {
				return events, false
			}
			if e.Type == watch.Error {
				events = append(events, fmt.Sprintf("ERROR %d", apierrors.FromObject(e.Object).(apierrors.APIStatus).Status().Code))
				continue
			}
			accessor, err := meta.Accessor(e.Object)
			if err != nil {
				t.Fatal(err)
			}
			name := accessor.GetName()
			if accessor.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
				name = "end"
			}
			events = append(events, strings.TrimSpace(string(e.Type)+" "+name))
		default:
			return events, true
		}
	}
}

func wantEvents(t *testing.T, w watch.Interface, open bool, want ...string) {
	t.Helper()
	got, isOpen := seen(t, w)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events -want +got:\n%s", diff)
	}
	if isOpen != open {
		t.Errorf("watch open = %v, want %v", isOpen, open)
	}
}

func watched(t *testing.T, c clients, opts metav1.ListOptions) watch.Interface {
	t.Helper()
	w, err := c.core.CoreV1().ConfigMaps("app").Watch(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w
}

func label(t *testing.T, c clients, name, patch string) {
	t.Helper()
	if _, err := c.core.CoreV1().ConfigMaps("app").Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// B1: a watch from a resourceVersion sees every later change once and in order; without one it sees the state first.
func TestWatchFromVersion(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		first := created(t, c, "one")
		created(t, c, "two")
		label(t, c, "one", `{"data":{"key":"new"}}`)
		if err := c.core.CoreV1().ConfigMaps("app").Delete(t.Context(), "two", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.core.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w := watched(t, c, metav1.ListOptions{ResourceVersion: first.ResourceVersion})
		wantEvents(t, w, true, "ADDED two", "MODIFIED one", "DELETED two")
		created(t, c, "three")
		wantEvents(t, w, true, "ADDED three")
		wantEvents(t, watched(t, c, metav1.ListOptions{}), true, "ADDED one", "ADDED three")
		wantEvents(t, watched(t, c, metav1.ListOptions{FieldSelector: "metadata.name=three"}), true, "ADDED three")
		last := created(t, c, "four")
		version, err := strconv.Atoi(last.ResourceVersion)
		if err != nil {
			t.Fatal(err)
		}
		ahead := watched(t, c, metav1.ListOptions{ResourceVersion: strconv.Itoa(version + 1)})
		created(t, c, "five")
		created(t, c, "six")
		wantEvents(t, ahead, true, "ADDED six") // the change with version+1 is five's
		w.Stop()
		if _, open := seen(t, w); open {
			t.Error("a stopped watch is open")
		}
	})
}

// B1: what enters a watch's selection is added, what leaves it is deleted, at whatever resourceVersion.
func TestWatchSelector(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		first := created(t, c, "one")
		opts := metav1.ListOptions{LabelSelector: "mine=yes", ResourceVersion: first.ResourceVersion}
		w := watched(t, c, opts)
		label(t, c, "one", `{"metadata":{"labels":{"mine":"yes"}}}`)
		label(t, c, "one", `{"data":{"key":"new"}}`)
		label(t, c, "one", `{"metadata":{"labels":{"mine":"no"}}}`)
		label(t, c, "one", `{"data":{"key":"newer"}}`)
		want := []string{"ADDED one", "MODIFIED one", "DELETED one"}
		wantEvents(t, w, true, want...)
		wantEvents(t, watched(t, c, opts), true, want...)
	})
}

// B1, all-5: a forgotten resourceVersion is an error event 410 and the end of the watch; a running watch goes on.
func TestWatchExpired(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		first := created(t, c, "one")
		running := watched(t, c, metav1.ListOptions{ResourceVersion: first.ResourceVersion})
		last := created(t, c, "two")
		c.cluster.Compact()
		created(t, c, "three")
		wantEvents(t, running, true, "ADDED two", "ADDED three")
		wantEvents(t, watched(t, c, metav1.ListOptions{ResourceVersion: first.ResourceVersion}), false, "ERROR 410")
		wantEvents(t, watched(t, c, metav1.ListOptions{ResourceVersion: last.ResourceVersion}), true, "ADDED three")
	})
}

// B1: a watch ends with its time, with the cluster, when it is ended, and with its context; its client sees the end of
// the stream, and later requests a refused connection.
func TestWatchEnds(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		timed := watched(t, c, metav1.ListOptions{TimeoutSeconds: new(int64(30))})
		start := time.Now()
		if e, ok := <-timed.ResultChan(); ok {
			t.Errorf("event %v, want the end", e)
		}
		if got := time.Since(start); got != 30*time.Second {
			t.Errorf("ended after %v, want 30s", got)
		}
		ended, other := watched(t, c, metav1.ListOptions{}), watchSnapshots(t, c)
		c.cluster.EndWatches("configmaps")
		wantEvents(t, ended, false)
		wantEvents(t, other, true)
		ctx, cancel := context.WithCancel(t.Context())
		cancelled, err := c.core.CoreV1().ConfigMaps("app").Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		wantEvents(t, cancelled, false, "ERROR 500") // client-go's own event for a cancelled read
		c.cluster.Close()
		c.cluster.Close()
		wantEvents(t, other, false)
		if _, err := c.core.CoreV1().ConfigMaps("app").Get(t.Context(), "one", metav1.GetOptions{}); !isRefused(err) {
			t.Errorf("get after Close = %v, want connection refused", err)
		}
	})
}

func watchSnapshots(t *testing.T, c clients) watch.Interface {
	t.Helper()
	w, err := c.snaps.SnapshotV1().VolumeSnapshots("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w
}

// B1, all-1: a watch that asks for initial events gets them and a bookmark at their end, or is refused by option.
func TestWatchList(t *testing.T) {
	t.Parallel()
	ask := metav1.ListOptions{SendInitialEvents: new(true), AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		created(t, c, "one")
		w := watched(t, c, ask)
		created(t, c, "two")
		wantEvents(t, w, true, "ADDED one", "BOOKMARK end", "ADDED two")
		unmatched := ask
		unmatched.ResourceVersionMatch = ""
		if _, err := c.core.CoreV1().ConfigMaps("app").Watch(t.Context(), unmatched); !apierrors.IsInvalid(err) {
			t.Errorf("watch without resourceVersionMatch = %v, want Invalid", err)
		}
	})
	inBubble(t, backuptest.Options{NoWatchList: true}, func(c clients) {
		t := c.t
		if _, err := c.core.CoreV1().ConfigMaps("app").Watch(t.Context(), ask); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "sendInitialEvents") {
			t.Errorf("watch = %v, want Invalid naming sendInitialEvents", err)
		}
	})
}

// B1: bookmarks come at their interval to those who allow them, and say how far the watch has seen.
func TestBookmarks(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{BookmarkEvery: time.Minute}, func(c clients) {
		t := c.t
		with, without := watched(t, c, metav1.ListOptions{AllowWatchBookmarks: true}), watched(t, c, metav1.ListOptions{})
		made := created(t, c, "one")
		start := time.Now()
		wantEvents(t, with, true, "ADDED one")
		e := <-with.ResultChan()
		if m, err := meta.Accessor(e.Object); err != nil || e.Type != watch.Bookmark || m.GetResourceVersion() != made.ResourceVersion {
			t.Errorf("event = %v %v, want a bookmark at %s", e, err, made.ResourceVersion)
		}
		if got := time.Since(start); got != time.Minute {
			t.Errorf("bookmark after %v, want 1m", got)
		}
		wantEvents(t, without, true, "ADDED one")
	})
}

// B1, B3, all-1: client-go's informers work, with WatchList and without, at the speed of events, and count as they ask.
func TestInformer(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		opts     backuptest.Options
		requests map[string]int
	}{
		"with WatchList":    {backuptest.Options{}, map[string]int{"watch configmaps": 1}},
		"without WatchList": {backuptest.Options{NoWatchList: true}, map[string]int{"watch configmaps": 2, "list configmaps": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.opts.Objects = many(100)
			inBubble(t, tc.opts, func(c clients) {
				t := c.t
				start := time.Now()
				ctx, cancel := context.WithCancel(t.Context())
				factory := informers.NewSharedInformerFactory(c.core, 0)
				informer := factory.Core().V1().ConfigMaps().Informer()
				var mu sync.Mutex
				var added []string
				handler := cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
					mu.Lock()
					defer mu.Unlock()
					added = append(added, obj.(*corev1.ConfigMap).Name)
				}}
				if _, err := informer.AddEventHandler(handler); err != nil {
					t.Fatal(err)
				}
				factory.Start(ctx.Done())
				factory.WaitForCacheSync(ctx.Done())
				// WaitForCacheSync polls every 100ms; a missing bookmark would cost 10s.
				if got := time.Since(start); got > time.Second {
					t.Errorf("synced after %v, want no waiting for anything but the poll of WaitForCacheSync", got)
				}
				got := c.cluster.Requests()
				if diff := cmp.Diff(tc.requests, got); diff != "" {
					t.Errorf("Requests() -want +got:\n%s", diff)
				}
				created(t, c, "late")
				synctest.Wait()
				mu.Lock()
				if len(added) != 101 || !slices.Contains(added, "late") {
					t.Errorf("%d added, want 101 with late", len(added))
				}
				mu.Unlock()
				cancel()
				factory.Shutdown()
			})
		})
	}
}

// B1, B3: readers that start at any moment while many clients write see the same history, with no gap, however slowly
// they read.
func TestWatchersSeeEveryChange(t *testing.T) {
	t.Parallel()
	c := newClients(t)
	const writers, each = 8, 50
	list, err := c.core.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	histories := make([][]string, writers)
	for i := range writers {
		wg.Go(func() {
			for n := range each {
				m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m-%d-%d", i, n)}}
				if _, err := c.core.CoreV1().ConfigMaps("default").Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
				if list, err := c.core.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{Limit: 20}); err != nil || len(list.Items) == 0 {
					t.Errorf("list while others write = %d, %v, want some", len(list.Items), err)
				}
			}
		})
		wg.Go(func() {
			var err error
			histories[i], err = versionsFrom(t.Context(), c, list.ResourceVersion, writers*each)
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i, got := range histories {
		if diff := cmp.Diff(histories[0], got); diff != "" {
			t.Errorf("watcher %d saw another history than watcher 0:\n%s", i, diff)
		}
		if len(slices.Compact(slices.Sorted(slices.Values(got)))) != writers*each {
			t.Errorf("watcher %d saw %d versions, some twice", i, len(got))
		}
	}
}

var errEnded = errors.New("watch ended")

// versionsFrom reads n changes from a watch that it opens anew after every tenth.
func versionsFrom(ctx context.Context, c clients, version string, n int) ([]string, error) {
	var got []string
	for len(got) < n {
		w, err := c.core.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{ResourceVersion: version})
		if err != nil {
			return nil, err
		}
		for range 10 {
			e, ok := <-w.ResultChan()
			if !ok || e.Type != watch.Added {
				return nil, fmt.Errorf("%w: %v", errEnded, e)
			}
			version = e.Object.(*corev1.ConfigMap).ResourceVersion
			if got = append(got, version); len(got) == n {
				break
			}
		}
		w.Stop()
	}
	return got, nil
}
