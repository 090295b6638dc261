package backuptest_test

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

func isRefused(err error) bool { return utilnet.IsConnectionRefused(err) }

func isReset(err error) bool { return errors.Is(err, syscall.ECONNRESET) }

func create(ctx context.Context, c clients, name string) error {
	_, err := c.core.CoreV1().ConfigMaps("app").Create(ctx, configMap(name, nil), metav1.CreateOptions{})
	return err
}

func exists(t *testing.T, c clients, name string) bool {
	t.Helper()
	list, err := c.core.CoreV1().ConfigMaps("app").List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	return len(list.Items) == 1
}

// B1: each action ends a request as its name says, and the server has done the request or not.
func TestFaultActions(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fault backuptest.Fault
		check func(error) bool
		took  time.Duration
		done  bool
	}{
		"latency":      {backuptest.Fault{Latency: 3 * time.Second}, func(err error) bool { return err == nil }, 3 * time.Second, true},
		"long latency": {backuptest.Fault{Latency: time.Hour}, isDeadline, time.Minute, false},
		"code":         {backuptest.Fault{Code: 503}, apierrors.IsServiceUnavailable, 0, false},
		"forbidden":    {backuptest.Fault{Code: 403}, apierrors.IsForbidden, 0, false},
		"no code":      {backuptest.Fault{Action: backuptest.FaultStatus}, apierrors.IsInternalError, 0, false},
		"own reason": {backuptest.Fault{Code: 422, Reason: "Odd", Message: "odd words"}, func(err error) bool {
			return apierrors.ReasonForError(err) == "Odd" && strings.Contains(err.Error(), "odd words")
		}, 0, false},
		"refuse":        {backuptest.Fault{Action: backuptest.FaultRefuse}, isRefused, 0, false},
		"reset":         {backuptest.Fault{Action: backuptest.FaultReset}, isReset, 0, false},
		"hang":          {backuptest.Fault{Action: backuptest.FaultHang}, isDeadline, time.Minute, false},
		"lost answer":   {backuptest.Fault{Action: backuptest.FaultLostAnswer}, isReset, 0, true},
		"hung answer":   {backuptest.Fault{Action: backuptest.FaultHangAnswer}, isDeadline, time.Minute, true},
		"latency first": {backuptest.Fault{Latency: time.Second, Code: 500}, apierrors.IsInternalError, time.Second, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, backuptest.Options{}, func(c clients) {
				t := c.t
				remove := c.cluster.Fault(tc.fault)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				start := time.Now()
				if err := create(ctx, c, "one"); !tc.check(err) {
					t.Errorf("create = %v, want another outcome", err)
				}
				if got := time.Since(start); got != tc.took {
					t.Errorf("create took %v, want %v", got, tc.took)
				}
				remove()
				remove()
				if got := exists(t, c, "one"); got != tc.done {
					t.Errorf("object exists = %v, want %v", got, tc.done)
				}
			})
		})
	}
}

func isDeadline(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

// B1: a fault meets the requests it names, in the number it says, and no others.
func TestFaultMatching(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fault backuptest.Fault
		want  string // o and x: one for each request below
	}{
		"everything":         {backuptest.Fault{}, "xxxxxx"},
		"verb":               {backuptest.Fault{Verb: "create"}, "xxxooo"},
		"writes":             {backuptest.Fault{Verb: "write"}, "xxxxoo"},
		"resource":           {backuptest.Fault{Resource: "configmaps"}, "xxoxxo"},
		"verb and resource":  {backuptest.Fault{Verb: "get", Resource: "configmaps"}, "ooooxo"},
		"subresource":        {backuptest.Fault{Resource: "pods/status"}, "oooooo"},
		"namespace":          {backuptest.Fault{Namespace: "default"}, "ooxooo"},
		"name of a create":   {backuptest.Fault{Verb: "create", Name: "b"}, "oxoooo"},
		"name of any":        {backuptest.Fault{Name: "a"}, "xoxxxo"},
		"second of creates":  {backuptest.Fault{Verb: "create", Nth: 2}, "oxoooo"},
		"second and third":   {backuptest.Fault{Verb: "create", Nth: 2, Times: 2}, "oxxooo"},
		"first two":          {backuptest.Fault{Times: 2}, "xxoooo"},
		"cluster-wide lists": {backuptest.Fault{Verb: "list", Resource: "persistentvolumes"}, "ooooox"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, backuptest.Options{}, func(c clients) {
				t := c.t
				tc.fault.Code = 418
				c.cluster.Fault(tc.fault)
				maps := c.core.CoreV1().ConfigMaps("app")
				var got strings.Builder
				for _, request := range []func() error{
					func() error { return create(t.Context(), c, "a") },
					func() error { return create(t.Context(), c, "b") },
					func() error {
						_, err := c.core.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
						return err
					},
					func() error {
						_, err := maps.Patch(t.Context(), "a", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
						return err
					},
					func() error { _, err := maps.Get(t.Context(), "a", metav1.GetOptions{}); return err },
					func() error {
						_, err := c.core.CoreV1().PersistentVolumes().List(t.Context(), metav1.ListOptions{})
						return err
					},
				} {
					err := request()
					if status, ok := errors.AsType[*apierrors.StatusError](err); ok && status.ErrStatus.Code == 418 {
						got.WriteByte('x')
					} else {
						got.WriteByte('o')
					}
				}
				if got.String() != tc.want {
					t.Errorf("requests met = %s, want %s", got.String(), tc.want)
				}
			})
		})
	}
}

// B3: Retry-After reaches the client, which waits in virtual time and tries again by itself; each try is counted.
func TestRetriesAreCounted(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		c.cluster.Fault(backuptest.Fault{Verb: "create", Resource: "configmaps", Times: 3, Code: 429, RetryAfter: 1500 * time.Millisecond})
		start := time.Now()
		if err := create(t.Context(), c, "one"); err != nil {
			t.Errorf("create = %v, want it to get through", err)
		}
		if got := time.Since(start); got != 6*time.Second {
			t.Errorf("create took %v, want three waits of 2s", got)
		}
		if diff := cmp.Diff(map[string]int{"create configmaps": 4}, c.cluster.Requests()); diff != "" {
			t.Errorf("Requests() -want +got:\n%s", diff)
		}
		c.cluster.ResetRequests()
		w := watched(t, c, metav1.ListOptions{})
		created(t, c, "two")
		wantEvents(t, w, true, "ADDED one", "ADDED two")
		if diff := cmp.Diff(map[string]int{"create configmaps": 1, "watch configmaps": 1}, c.cluster.Requests()); diff != "" {
			t.Errorf("Requests() after a reset -want +got:\n%s", diff)
		}
	})
}

// B1: the first fault that is due acts, and every fault counts what it matches.
func TestFaultsTogether(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		c.cluster.Fault(backuptest.Fault{Verb: "create", Nth: 1, Code: 503})
		c.cluster.Fault(backuptest.Fault{Verb: "write", Nth: 2, Code: 403})
		var got []metav1.StatusReason
		for _, name := range []string{"a", "b", "c"} {
			got = append(got, apierrors.ReasonForError(create(t.Context(), c, name)))
		}
		want := []metav1.StatusReason{metav1.StatusReasonServiceUnavailable, metav1.StatusReasonForbidden, metav1.StatusReasonUnknown}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("reasons -want +got:\n%s", diff)
		}
	})
}

// B1: a test can end a workflow right after its kth write: the write is done, and nothing more is.
func TestFaultObserve(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		ctx, cancel := context.WithCancel(t.Context())
		var observed backuptest.Request
		c.cluster.Fault(backuptest.Fault{Verb: "write", Nth: 2, Action: backuptest.FaultHangAnswer, Observe: func(r backuptest.Request) {
			observed = r
			cancel()
		}})
		var err error
		for _, name := range []string{"a", "b", "c"} {
			if err = create(ctx, c, name); err != nil {
				break
			}
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("second create = %v, want cancelled", err)
		}
		if diff := cmp.Diff(backuptest.Request{Verb: "create", Resource: "configmaps", Namespace: "app", Name: "b"}, observed); diff != "" {
			t.Errorf("observed -want +got:\n%s", diff)
		}
		if !exists(t, c, "a") || !exists(t, c, "b") || exists(t, c, "c") {
			t.Error("want a and b made, and not c")
		}
	})
}

// B1, all-5: watches end, expire, lose events and fall silent as told.
func TestWatchFaults(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fault  backuptest.Fault
		events []string
		open   bool
	}{
		"ends at once":             {backuptest.Fault{Action: backuptest.FaultEndWatch}, nil, false},
		"ends after one":           {backuptest.Fault{Action: backuptest.FaultEndWatch, After: 1}, []string{"ADDED a"}, false},
		"expires at once":          {backuptest.Fault{Action: backuptest.FaultExpireWatch}, []string{"ERROR 410"}, false},
		"expires after two":        {backuptest.Fault{Action: backuptest.FaultExpireWatch, After: 2}, []string{"ADDED a", "ADDED b", "ERROR 410"}, false},
		"loses the second":         {backuptest.Fault{Action: backuptest.FaultLoseEvent, After: 1}, []string{"ADDED a", "ADDED c", "MODIFIED b"}, true},
		"loses b's second":         {backuptest.Fault{Action: backuptest.FaultLoseEvent, After: 1, Object: "b"}, []string{"ADDED a", "ADDED b", "ADDED c"}, true},
		"silent from the start":    {backuptest.Fault{Action: backuptest.FaultSilenceWatch}, nil, true},
		"silent after three":       {backuptest.Fault{Action: backuptest.FaultSilenceWatch, After: 3}, []string{"ADDED a", "ADDED b", "ADDED c"}, true},
		"refused":                  {backuptest.Fault{Code: 403}, nil, false},
		"another kind's is intact": {backuptest.Fault{Action: backuptest.FaultEndWatch, Resource: "pods"}, []string{"ADDED a", "ADDED b", "ADDED c", "MODIFIED b"}, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, backuptest.Options{}, func(c clients) {
				t := c.t
				tc.fault.Verb = "watch"
				c.cluster.Fault(tc.fault)
				w, err := c.core.CoreV1().ConfigMaps("app").Watch(t.Context(), metav1.ListOptions{})
				if tc.fault.Code != 0 {
					if !apierrors.IsForbidden(err) {
						t.Errorf("Watch = %v, want Forbidden", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				defer w.Stop()
				for _, name := range []string{"a", "b", "c"} {
					created(t, c, name)
				}
				label(t, c, "b", `{"data":{"key":"new"}}`)
				wantEvents(t, w, tc.open, tc.events...)
			})
		})
	}
}

// B1, all-1: bookmarks can get lost, as behind some proxies.
func TestLostBookmarks(t *testing.T) {
	t.Parallel()
	ask := metav1.ListOptions{SendInitialEvents: new(true), AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}
	for action, want := range map[backuptest.FaultAction][]string{
		backuptest.FaultLoseBookmarks: {"ADDED one", "ADDED two"},
		backuptest.FaultSilenceWatch:  nil,
	} {
		inBubble(t, backuptest.Options{}, func(c clients) {
			t := c.t
			created(t, c, "one")
			c.cluster.Fault(backuptest.Fault{Verb: "watch", Action: action})
			w := watched(t, c, ask)
			created(t, c, "two")
			wantEvents(t, w, true, want...)
		})
	}
}

// B1: what hangs ends with the cluster.
func TestCloseEndsHangingRequests(t *testing.T) {
	t.Parallel()
	for _, fault := range []backuptest.Fault{
		{Action: backuptest.FaultHang}, {Action: backuptest.FaultHangAnswer}, {Latency: time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newClients(t)
			c.cluster.Fault(fault)
			done := make(chan error, 1)
			go func() {
				_, err := c.core.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
				done <- err
			}()
			synctest.Wait()
			start := time.Now()
			c.cluster.Close()
			if err := <-done; !isReset(err) || time.Since(start) != 0 {
				t.Errorf("create = %v after %v, want a broken connection at once", err, time.Since(start))
			}
		})
	}
}
