package backuptest_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

// B1: a fault with a duration lasts for it, from the first request that meets it on.
func TestFaultFor(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		fault  backuptest.Fault
		want   string // one request a second; x: forbidden
	}{
		"from the first":  {"nobody asked before, so the time began with the first", backuptest.Fault{For: 2 * time.Second}, "xxoo"},
		"from the second": {"the first request passes", backuptest.Fault{Nth: 2, For: 2 * time.Second}, "oxxo"},
		"no more than":    {"whichever limit comes first ends it", backuptest.Fault{For: time.Hour, Times: 3}, "xxxo"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, backuptest.Options{}, func(c clients) {
				t := c.t
				tc.fault.Verb, tc.fault.Code = "create", 403
				c.cluster.Fault(tc.fault)
				time.Sleep(time.Minute)
				var got strings.Builder
				for _, name := range []string{"a", "b", "c", "d"} {
					if err := create(t.Context(), c, name); apierrors.IsForbidden(err) {
						got.WriteByte('x')
					} else {
						got.WriteByte('o')
					}
					time.Sleep(time.Second)
				}
				if got.String() != tc.want {
					t.Errorf("requests met = %s, want %s: %s", got.String(), tc.want, tc.reason)
				}
			})
		})
	}
}

// B1: of many requests about as many meet a fault as its chance says, and the same ones for the same seed.
func TestFaultChance(t *testing.T) {
	t.Parallel()
	met := func(seed uint64) (pattern string) {
		inBubble(t, backuptest.Options{}, func(c clients) {
			c.cluster.Fault(backuptest.Fault{Verb: "list", Chance: 0.25, Seed: seed, Code: 500})
			for range 200 {
				_, err := c.core.CoreV1().ConfigMaps("app").List(c.t.Context(), metav1.ListOptions{})
				pattern += map[bool]string{true: "o", false: "x"}[err == nil]
			}
		})
		return pattern
	}
	one, again, other := met(1), met(1), met(2)
	if n := strings.Count(one, "x"); n < 25 || n > 75 {
		t.Errorf("%d of 200 requests met a fault of chance 1/4", n)
	}
	if one != again || one == other {
		t.Errorf("same seed, same choices: %v; other seed, others: %v", one == again, one != other)
	}
}

// B1: an answer can break off, and can come slowly; a client with a deadline gives up then.
func TestFaultsOfAnswers(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		fault  backuptest.Fault
		check  func(error) bool
		took   time.Duration
	}{
		"short":         {"the list is longer than ten bytes", backuptest.Fault{Action: backuptest.FaultCutAnswer, After: 10}, isReset, 0},
		"nothing of it": {"the status line came, and no more", backuptest.Fault{Action: backuptest.FaultCutAnswer}, isReset, 0},
		"whole": {
			"it is cut behind its end",
			backuptest.Fault{Action: backuptest.FaultCutAnswer, After: 1 << 20},
			func(err error) bool { return err == nil }, 0,
		},
		"trickle": {"a byte a second takes longer than the client waits", backuptest.Fault{Action: backuptest.FaultTrickle, Latency: time.Second}, isDeadline, time.Minute},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, backuptest.Options{}, func(c clients) {
				t := c.t
				created(t, c, "one")
				tc.fault.Verb = "list"
				c.cluster.Fault(tc.fault)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				start := time.Now()
				_, err := c.core.CoreV1().ConfigMaps("app").List(ctx, metav1.ListOptions{})
				if !tc.check(err) {
					t.Errorf("List = %v, want another outcome: %s", err, tc.reason)
				}
				if got := time.Since(start); got != tc.took {
					t.Errorf("List took %v, want %v: %s", got, tc.took, tc.reason)
				}
			})
		})
	}
}

// B1: a slow answer comes through to a client that waits.
func TestSlowAnswer(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		created(t, c, "one")
		c.cluster.Fault(backuptest.Fault{Verb: "list", Action: backuptest.FaultTrickle, Latency: time.Second})
		start := time.Now()
		list, err := c.core.CoreV1().ConfigMaps("app").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 || list.Items[0].Name != "one" {
			t.Errorf("List = %v, %v, want one", list, err)
		}
		if took := time.Since(start); took < 100*time.Second {
			t.Errorf("List took %v, want a second for each of more than a hundred bytes", took)
		}
	})
}

// B1: a stale read is what the same read was at first; writes and watches are not stale.
func TestStaleReads(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		created(t, c, "one")
		remove := c.cluster.Fault(backuptest.Fault{Resource: "configmaps", Action: backuptest.FaultStale})
		maps := c.core.CoreV1().ConfigMaps("app")
		list := func() int {
			all, err := maps.List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return len(all.Items)
		}
		_, before := maps.Get(t.Context(), "two", metav1.GetOptions{})
		first := list()
		created(t, c, "two")
		_, stale := maps.Get(t.Context(), "two", metav1.GetOptions{})
		if second := list(); first != 1 || second != 1 || !apierrors.IsNotFound(before) || !apierrors.IsNotFound(stale) {
			t.Errorf("lists of %d and %d, gets %v and %v; want nothing of the second object", first, second, before, stale)
		}
		if err := create(t.Context(), c, "two"); !apierrors.IsAlreadyExists(err) {
			t.Errorf("create = %v, want that it exists", err)
		}
		w := watched(t, c, metav1.ListOptions{})
		wantEvents(t, w, true, "ADDED one", "ADDED two")
		remove()
		if got := list(); got != 2 {
			t.Errorf("list of %d afterwards, want 2", got)
		}
	})
}

// B1, all-5: an event that a broken connection cuts in two ends its watch.
func TestCutEvent(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		c.cluster.Fault(backuptest.Fault{Verb: "watch", Action: backuptest.FaultCutAnswer, After: 20})
		w := watched(t, c, metav1.ListOptions{})
		created(t, c, "one")
		synctest.Wait()
		if e, open := <-w.ResultChan(); open && e.Type != "ERROR" {
			t.Errorf("event %v came through, want an end", e)
		}
	})
}

// B1: a restart of the server ends watches, refuses connections, forbids everything for two seconds, and is over.
func TestRestart(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		w := watched(t, c, metav1.ListOptions{})
		c.cluster.Restart(5 * time.Second)
		if e, open := <-w.ResultChan(); open {
			t.Errorf("event %v, want the end of the watch", e)
		}
		start := time.Now()
		var refused, forbidden int
		for {
			err := create(t.Context(), c, "one")
			if err == nil {
				break
			}
			switch {
			case isRefused(err):
				refused++
			case apierrors.IsForbidden(err):
				forbidden++
			default:
				t.Fatal(err)
			}
			time.Sleep(500 * time.Millisecond)
		}
		if took := time.Since(start); took != 7*time.Second || refused != 10 || forbidden != 4 {
			t.Errorf("back after %v, %d refused and %d forbidden, want 7s, 10 and 4", took, refused, forbidden)
		}
	})
}
