package phasekube_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/phase"
	"github.com/sheetanchor/sheetanchor/phase/phasekube"
)

// line is the connection of one replica, with trouble of its own on it. It remembers when the last write that was answered began.
type line struct {
	http.RoundTripper
	trouble func(n int, req *http.Request, next func() (*http.Response, error)) (*http.Response, error) // n counts requests from 1

	mu      sync.Mutex
	n       int
	renewed time.Time
}

func (l *line) RoundTrip(req *http.Request) (*http.Response, error) {
	l.mu.Lock()
	l.n++
	n, began := l.n, time.Now()
	l.mu.Unlock()
	got, err := l.trouble(n, req, func() (*http.Response, error) { return l.RoundTripper.RoundTrip(req) })
	if err == nil && got.StatusCode < 300 && req.Method != http.MethodGet {
		l.mu.Lock()
		l.renewed = began
		l.mu.Unlock()
	}
	return got, err
}

func replica(t *testing.T, cluster *backuptest.Cluster, l *line) coordinationclient.CoordinationV1Interface {
	t.Helper()
	config := cluster.Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { l.RoundTripper = next; return l })
	return kubernetes.NewForConfigOrDie(config).CoordinationV1()
}

func hang(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, context.Cause(req.Context())
}

// wait passes the time on the way of a request.
func wait(req *http.Request, d time.Duration) {
	select {
	case <-req.Context().Done():
	case <-time.NewTimer(d).C:
	}
}

func forbidden(req *http.Request) *http.Response {
	return &http.Response{
		StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Request: req,
		Body: io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"no more","code":403}`)),
	}
}

// X5: whatever happens to its renewals, the context of a holder ends at the latest RenewDeadline after the last renewal that
// was answered began, and before the next holder begins.
func TestContextEndsBeforeTheLease(t *testing.T) {
	t.Parallel()
	put := func(req *http.Request) bool { return req.Method == http.MethodPut }
	type answer = func(n int, req *http.Request, next func() (*http.Response, error)) (*http.Response, error)
	tests := map[string]struct {
		reason  string
		trouble answer
	}{
		"everything hangs": {"a network that drops packets", func(n int, req *http.Request, next func() (*http.Response, error)) (*http.Response, error) {
			if n > 4 {
				return hang(req)
			}
			return next()
		}},
		"answers hang": {"others see a renewal of which the holder does not know", func(n int, req *http.Request, next func() (*http.Response, error)) (*http.Response, error) {
			if n > 4 {
				_, _ = next()
				return hang(req)
			}
			return next()
		}},
		"refused": {"a server that is gone", func(n int, _ *http.Request, next func() (*http.Response, error)) (*http.Response, error) {
			if n > 4 {
				return nil, errors.New("connection refused")
			}
			return next()
		}},
		"writes are forbidden": {"the role was taken away", func(n int, req *http.Request, next func() (*http.Response, error)) (*http.Response, error) {
			if n > 4 && put(req) {
				return forbidden(req), nil
			}
			return next()
		}},
		"slow answers, then none": {
			"others count from the write, the election from its answer, seven seconds later",
			func(n int, req *http.Request, next func() (*http.Response, error)) (*http.Response, error) {
				switch {
				case n > 5:
					return hang(req)
				case n > 4:
					res, err := next()
					wait(req, 7*time.Second)
					return res, err
				}
				return next()
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cluster, client := leases(t)
				cut := &line{trouble: tc.trouble}
				first, second := newLease(t, replica(t, cluster, cut), phasekube.LeaseOptions{}), newLease(t, client, phasekube.LeaseOptions{})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var ended, began time.Time
				var cause, lost error
				var wg sync.WaitGroup
				wg.Go(func() {
					lost = first.Hold(ctx, "replica-0", func(ctx context.Context) error {
						<-ctx.Done()
						ended, cause = time.Now(), context.Cause(ctx)
						return nil
					})
				})
				time.Sleep(time.Second)
				wg.Go(func() {
					if err := second.Hold(ctx, "replica-1", func(context.Context) error {
						began = time.Now()
						return nil
					}); err != nil {
						t.Errorf("the second holds: %v", err)
					}
				})
				wg.Wait()
				if !errors.Is(lost, phasekube.ErrLeaseLost) || !errors.Is(cause, phasekube.ErrLeaseLost) || !strings.Contains(lost.Error(), "app/operator") {
					t.Errorf("Hold = %v, cause %v, want ErrLeaseLost: %s", lost, cause, tc.reason)
				}
				cut.mu.Lock()
				defer cut.mu.Unlock()
				if late := ended.Sub(cut.renewed); late > 10*time.Second || late <= 0 {
					t.Errorf("the context ended %v after the last renewal began, want at most 10s: %s", late, tc.reason)
				}
				if early := began.Sub(ended); early < 3*time.Second {
					t.Errorf("the second began %v after the first's context ended, want time to return: %s", early, tc.reason)
				}
			})
		})
	}
}

// X5: after ctx has ended the lease is kept until work has returned, and then given back at once.
func TestLeaseIsGivenBackAfterWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, client := leases(t)
		first, second := newLease(t, client, phasekube.LeaseOptions{}), newLease(t, client, phasekube.LeaseOptions{})
		ctx, cancel := context.WithCancelCause(t.Context())
		var returned, began time.Time
		done := errors.New("done")
		var wg sync.WaitGroup
		wg.Go(func() {
			err := first.Hold(ctx, "replica-0", func(ctx context.Context) error {
				<-ctx.Done()
				if cause := context.Cause(ctx); !errors.Is(cause, done) {
					t.Errorf("cause = %v, want that of ctx", cause)
				}
				time.Sleep(20 * time.Second) // longer than the lease lasts
				returned = time.Now()
				return nil
			})
			if err != nil {
				t.Errorf("the first holds: %v", err)
			}
		})
		time.Sleep(time.Second)
		wg.Go(func() {
			if err := second.Hold(t.Context(), "replica-1", func(context.Context) error {
				began = time.Now()
				return nil
			}); err != nil {
				t.Errorf("the second holds: %v", err)
			}
		})
		time.Sleep(time.Minute)
		if h, err := first.Read(t.Context()); err != nil || h.Identity != "replica-0" {
			t.Errorf("the holder is %+v, %v, want replica-0", h, err)
		}
		cancel(done)
		wg.Wait()
		if late := began.Sub(returned); late < 0 || late > 5*time.Second {
			t.Errorf("the second began %v after the first's work had returned, want a few seconds", late)
		}
		if h, err := first.Read(t.Context()); err != nil || h.Identity != "" || h.Transitions != 1 {
			t.Errorf("at the end the holder is %+v, %v, want nobody, after one change", h, err)
		}
	})
}

// X5: a lease that somebody else took, whatever the rules, ends the context at the next look.
func TestTakenLeaseEndsTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, client := leases(t)
		time.AfterFunc(5*time.Second, func() { put(t, client, held("thief", time.Now())) })
		var took time.Duration
		err := newLease(t, client, phasekube.LeaseOptions{}).Hold(t.Context(), "replica-0", func(ctx context.Context) error {
			began := time.Now()
			<-ctx.Done()
			took = time.Since(began)
			return errors.New("interrupted")
		})
		if !errors.Is(err, phasekube.ErrLeaseLost) || !strings.Contains(err.Error(), `"thief"`) || !strings.Contains(err.Error(), "interrupted") {
			t.Errorf("Hold = %v, want ErrLeaseLost with the thief and work's error", err)
		}
		if took > 8*time.Second {
			t.Errorf("the context ended after %v, want a retry period after the theft", took)
		}
		lease, err := client.Leases("app").Get(t.Context(), "operator", metav1.GetOptions{})
		if err != nil || *lease.Spec.HolderIdentity != "thief" {
			t.Errorf("the holder is %v, %v, want the thief's lease left alone", lease.Spec.HolderIdentity, err)
		}
	})
}

// X1: work that does not return is left behind once, is named, and keeps the lease from being given back.
func TestAbandonedWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, client := leases(t)
		lease := newLease(t, client, phasekube.LeaseOptions{Grace: 10 * time.Second})
		ctx, cancel := context.WithCancel(t.Context())
		release := make(chan struct{})
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		err := lease.Hold(ctx, "replica-0", func(context.Context) error { <-release; return nil })
		if took := time.Since(began); !errors.Is(err, phasekube.ErrAbandoned) || !errors.Is(err, context.Canceled) || took != 11*time.Second {
			t.Errorf("Hold = %v after %v, want ErrAbandoned after the grace time", err, took)
		}
		if h, err := lease.Read(t.Context()); err != nil || h.Identity != "replica-0" {
			t.Errorf("the holder is %+v, %v, want it not given back", h, err)
		}
		nothing := func(context.Context) error { return nil }
		if err := lease.Hold(t.Context(), "replica-0", nothing); !errors.Is(err, phasekube.ErrAbandoned) {
			t.Errorf("Hold beside it = %v, want ErrAbandoned", err)
		}
		close(release)
		synctest.Wait()
		if err := lease.Hold(t.Context(), "replica-0", nothing); err != nil {
			t.Errorf("Hold after it has returned = %v", err)
		}
	})
}

// X2: X1: what Hold returns says why it ended.
func TestHoldErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	tests := map[string]struct {
		reason string
		others bool
		fault  *backuptest.Fault
		work   func(context.Context) error
		want   []error
		hints  []string
	}{
		"work fails":  {reason: "its error is told", work: func(context.Context) error { return broken }, want: []error{broken}},
		"work panics": {reason: "it does not cross", work: func(context.Context) error { panic("odd") }, want: []error{phase.ErrPanic}, hints: []string{"odd"}},
		"somebody has it": {
			reason: "who is told", others: true, want: []error{context.DeadlineExceeded}, hints: []string{`"replica-9" holds it`},
		},
		"no permission": {
			reason: "P5: the last answer is told, typed", fault: &backuptest.Fault{Resource: "leases", Code: http.StatusForbidden},
			want: []error{context.DeadlineExceeded, phase.ErrForbidden}, hints: []string{"app/operator"},
		},
		"quota": {
			reason: "P5: the last answer is told, typed",
			fault:  &backuptest.Fault{Verb: "create", Resource: "leases", Code: http.StatusForbidden, Message: "exceeded quota: q, requested: count/leases=1"},
			want:   []error{context.DeadlineExceeded, phase.ErrQuotaExceeded},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cluster, client := leases(t)
				if tc.fault != nil {
					cluster.Fault(*tc.fault)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				if tc.others {
					put(t, client, held("replica-9", time.Now()))
				}
				work := tc.work
				if work == nil {
					work = func(context.Context) error { t.Error("work was called"); return nil }
				}
				err := newLease(t, client, phasekube.LeaseOptions{}).Hold(ctx, "replica-0", work)
				for _, want := range tc.want {
					if !errors.Is(err, want) {
						t.Errorf("Hold = %v, want %v: %s", err, want, tc.reason)
					}
				}
				for _, hint := range tc.hints {
					if !strings.Contains(fmt.Sprint(err), hint) {
						t.Errorf("Hold = %v, want %q in it: %s", err, hint, tc.reason)
					}
				}
			})
		})
	}
	_, client := leases(t)
	lease := newLease(t, client, phasekube.LeaseOptions{})
	if err := lease.Hold(t.Context(), "", func(context.Context) error { return nil }); !errors.Is(err, phase.ErrInvalid) {
		t.Errorf("Hold without an identity = %v, want ErrInvalid", err)
	}
	if err := lease.Hold(t.Context(), "replica-0", nil); !errors.Is(err, phase.ErrInvalid) {
		t.Errorf("Hold without work = %v, want ErrInvalid", err)
	}
}

// A lease that cannot be given back runs out: that is no error of the work.
func TestGiveBackFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster, client := leases(t)
		lease := newLease(t, client, phasekube.LeaseOptions{})
		err := lease.Hold(t.Context(), "replica-0", func(context.Context) error {
			cluster.Fault(backuptest.Fault{Verb: "update", Action: backuptest.FaultRefuse})
			return nil
		})
		if err != nil {
			t.Errorf("Hold = %v, want nil", err)
		}
		if h, err := lease.Read(t.Context()); err != nil || h.Identity != "replica-0" {
			t.Errorf("the holder is %+v, %v, want it not given back", h, err)
		}
	})
}

// X5: a lease that is lost while work ends is told too, and is not given back.
func TestLostWhileWorkEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster, client := leases(t)
		lease := newLease(t, client, phasekube.LeaseOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		err := lease.Hold(ctx, "replica-0", func(context.Context) error {
			cancel()
			cluster.Fault(backuptest.Fault{Action: backuptest.FaultRefuse})
			time.Sleep(20 * time.Second)
			return nil
		})
		if !errors.Is(err, phasekube.ErrLeaseLost) || !phase.IsTransient(err) {
			t.Errorf("Hold = %v, want ErrLeaseLost with the last error", err)
		}
		if n := cluster.Requests()["update leases"]; n == 0 {
			t.Error("no renewals after ctx had ended")
		}
	})
}
