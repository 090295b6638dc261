package phasekube_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/phase"
	"github.com/sheetanchor/sheetanchor/phase/phasekube"
)

// mishap is what happens to one write of a process.
type mishap string

const (
	crashBefore mishap = "the process dies before the write"
	crashAfter  mishap = "the process dies after the write"
	lostAnswer  mishap = "the answer gets lost"
	hungAnswer  mishap = "the answer never comes"
	unavailable mishap = "503, not written"
)

// process is one process with a connection of its own. When it has died nothing gets through any more.
type process struct {
	http.RoundTripper
	ctx  context.Context
	die  context.CancelFunc
	fate func(n int) mishap // of the nth write of a phase, counted from 0; empty: none

	mu     sync.Mutex
	writes int
}

func (p *process) RoundTrip(req *http.Request) (*http.Response, error) {
	if p.ctx.Err() != nil {
		return nil, errors.New("the process is dead")
	}
	if req.Method != http.MethodPatch {
		return p.RoundTripper.RoundTrip(req)
	}
	p.mu.Lock()
	n := p.writes
	p.writes++
	p.mu.Unlock()
	switch m := p.fate(n); m {
	case crashBefore:
		p.die()
		return nil, errors.New(string(m))
	case unavailable:
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
	case crashAfter, lostAnswer, hungAnswer:
		res, err := p.RoundTripper.RoundTrip(req)
		if err == nil {
			_ = res.Body.Close()
		}
		if m == hungAnswer {
			<-req.Context().Done()
		}
		if m == crashAfter {
			p.die()
		}
		return nil, errors.New(string(m))
	default:
		return p.RoundTripper.RoundTrip(req)
	}
}

func newProcess(t *testing.T, cluster *backuptest.Cluster, fate func(n int) mishap) (*process, dynamic.Interface, kubernetes.Interface) {
	t.Helper()
	p := &process{fate: fate}
	p.ctx, p.die = context.WithCancel(t.Context())
	config := cluster.Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { p.RoundTripper = next; return p })
	return p, dynamic.NewForConfigOrDie(config), kubernetes.NewForConfigOrDie(config)
}

// kinds are the ways to keep a phase.
var kinds = map[string]struct {
	gvr  schema.GroupVersionResource
	opts phasekube.Options
}{
	"ConfigMap":       {configMaps, phasekube.Options{Fields: phasekube.ConfigMapFields()}},
	"Velero's backup": {backups, phasekube.Options{}},
	"status subresource and conditions": {runs, phasekube.Options{StatusSubresource: true, Fields: phasekube.Fields{
		Phase: "status.phase", Reason: "status.reason", Message: "status.message", Owner: "status.owner", Completed: "status.completed",
		Conditions: "status.conditions",
	}}},
}

// watcher sees every phase that is written.
type watcher struct {
	mu     sync.Mutex
	phases []string
}

func watch(t *testing.T, cluster *backuptest.Cluster, gvr schema.GroupVersionResource, path string) *watcher {
	t.Helper()
	w := &watcher{}
	client := dynamic.NewForConfigOrDie(cluster.Config())
	look := func(backuptest.Request) {
		obj, err := client.Resource(gvr).Namespace("app").Get(t.Context(), "run-1", metav1.GetOptions{})
		if err != nil {
			t.Error(err)
			return
		}
		p, _, err := unstructured.NestedString(obj.Object, strings.Split(path, ".")...)
		if err != nil {
			t.Error(err)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if p != "" && (len(w.phases) == 0 || w.phases[len(w.phases)-1] != p) {
			w.phases = append(w.phases, p)
		}
	}
	cluster.Fault(backuptest.Fault{Verb: "patch", Observe: look})
	return w
}

// check says that the phases went one way, to one end.
func (w *watcher) check(t *testing.T, what string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	want := "InProgress WaitingForPluginOperationsPartiallyFailed FinalizingPartiallyFailed PartiallyFailed"
	if got := strings.Join(w.phases, " "); got != want {
		t.Errorf("%s: a watcher saw %s, want %s", what, got, want)
	}
}

// step does what is next: an operation fails early, and its failure is told once only.
func step(ctx context.Context, a *phase.Applier[myPhase], state phase.State[myPhase]) (phase.State[myPhase], error) {
	switch state.Phase {
	case phase.New:
		return a.Apply(ctx, state, phase.EventStart, "")
	case phase.InProgress:
		return a.Advance(ctx, state, phase.Tally{Running: 1, Failed: 1})
	default:
		return a.Advance(ctx, state, phase.Tally{Completed: 1})
	}
}

// live lives one process until the work has ended or the process has died; it says whether the work has ended.
func live(p *process, a *phase.Applier[myPhase]) bool {
	for p.ctx.Err() == nil {
		state, err := a.Load(p.ctx)
		if err == nil && a.Machine().IsTerminal(state.Phase) {
			return true
		}
		if err == nil {
			_, _ = step(p.ctx, a, state)
		}
	}
	return false
}

// P5: P7: phase-1, phase-2, phase-8: each write of a run fails in each way, or the process dies around it and another one
// goes on: one end, the right one, with its reason and time, and what was told once is not lost.
func TestEveryWriteFails(t *testing.T) {
	t.Parallel()
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const writes = 4
			for k := range writes {
				for _, m := range []mishap{crashBefore, crashAfter, lostAnswer, hungAnswer, unavailable} {
					synctest.Test(t, func(t *testing.T) {
						cluster, client := newCluster(t)
						seen := watch(t, cluster, kind.gvr, phasePath(kind.opts))
						ended, lives, hooks := false, 0, 0
						for ; !ended && lives < 3; lives++ {
							first := lives == 0
							p, own, _ := newProcess(t, cluster, func(n int) mishap {
								if first && n == k {
									return m
								}
								return ""
							})
							a, err := phase.NewApplier(phase.Backup[myPhase](), phasekube.New[myPhase](own, kind.gvr, "app", "run-1", kind.opts),
								phase.ApplierOptions[myPhase]{Owner: "replica-1", Hooks: phase.Hooks[myPhase]{
									Transition: func(_ context.Context, c phase.Change[myPhase]) {
										if c.Terminal {
											hooks++
										}
									},
								}})
							if err != nil {
								t.Fatal(err)
							}
							ended = live(p, a)
							p.die()
						}
						what := fmt.Sprintf("write %d: %s", k, m)
						if crash := m == crashBefore || m == crashAfter; !ended || crash != (lives == 2) || !crash && hooks != 1 {
							t.Errorf("%s: ended %v after %d lives, the end was reported %d times", what, ended, lives, hooks)
						}
						seen.check(t, what)
						state, err := phasekube.New[myPhase](client, kind.gvr, "app", "run-1", kind.opts).Get(t.Context())
						if err != nil || state.Reason != phase.ReasonOperationsFailed || state.Completed.IsZero() {
							t.Errorf("%s: ended as %+v, %v, want the reason and the time of completion", what, state, err)
						}
					})
				}
			}
		})
	}
}

func phasePath(opts phasekube.Options) string {
	if opts.Fields.Phase == "" {
		return "status.phase"
	}
	return opts.Fields.Phase
}

// P4: P5: X5: phase-5, phase-9, phase-10: two replicas and a Lease. The one that works dies around each write; the other takes over when the
// Lease has run out, and ends the work as it would have ended.
func TestSecondReplicaEndsTheWork(t *testing.T) {
	t.Parallel()
	kind := kinds["ConfigMap"]
	for k := range 4 {
		for _, m := range []mishap{crashBefore, crashAfter} {
			t.Run(fmt.Sprintf("write %d, %s", k, m), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					cluster, client := newCluster(t)
					seen := watch(t, cluster, kind.gvr, phasePath(kind.opts))
					var wg sync.WaitGroup
					var died, took time.Time
					for i := range 2 {
						p, own, core := newProcess(t, cluster, func(n int) mishap {
							if i == 0 && n == k {
								died = time.Now()
								return m
							}
							return ""
						})
						me := fmt.Sprintf("replica-%d", i)
						lease := newLease(t, core.CoordinationV1(), phasekube.LeaseOptions{})
						a, err := phase.NewApplier(phase.Backup[myPhase](), phasekube.New[myPhase](own, kind.gvr, "app", "run-1", kind.opts),
							phase.ApplierOptions[myPhase]{Owner: me})
						if err != nil {
							t.Fatal(err)
						}
						wg.Go(func() {
							_ = lease.Hold(p.ctx, me, func(ctx context.Context) error {
								r, err := a.Recover(ctx, lease)
								if err != nil {
									return err
								}
								if i == 1 {
									took = time.Now()
									if !r.Mine && !a.Machine().IsTerminal(r.State.Phase) {
										t.Errorf("Recover = %+v, want the work to be ours", r)
									}
								}
								for ctx.Err() == nil && !a.Machine().IsTerminal(r.State.Phase) {
									next, err := step(ctx, a, r.State)
									if err != nil {
										return err
									}
									r.State = next
								}
								return nil
							})
						})
						time.Sleep(100 * time.Millisecond)
					}
					wg.Wait()
					seen.check(t, string(m))
					if wait := took.Sub(died); wait < 10*time.Second || wait > 25*time.Second {
						t.Errorf("the second took over %v after the death of the first, want the time of the lease", wait)
					}
					state, err := phasekube.New[myPhase](client, kind.gvr, "app", "run-1", kind.opts).Get(t.Context())
					if err != nil || state.Phase != phase.PartiallyFailed || state.Reason != phase.ReasonOperationsFailed {
						t.Errorf("ended as %+v, %v", state, err)
					}
				})
			})
		}
	}
}

// P5: phase-8, phase-9, phase-10: two owners without any election, each write of each with a mishap by chance: one claims the
// work, the others are told who, and one end is seen.
func TestOwnersRace(t *testing.T) {
	t.Parallel()
	mishaps := []mishap{"", "", "", lostAnswer, hungAnswer, unavailable}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(60) {
				synctest.Test(t, func(t *testing.T) {
					cluster, _ := newCluster(t)
					seen := watch(t, cluster, kind.gvr, phasePath(kind.opts))
					var mu sync.Mutex
					claims, ends := 0, 0
					var wg sync.WaitGroup
					for i := range uint64(3) {
						r := rand.New(rand.NewPCG(seed, i)) //nolint:gosec // a seed is wanted
						p, own, _ := newProcess(t, cluster, func(int) mishap {
							mu.Lock()
							defer mu.Unlock()
							return mishaps[r.IntN(len(mishaps))]
						})
						a, err := phase.NewApplier(phase.Backup[myPhase](), phasekube.New[myPhase](own, kind.gvr, "app", "run-1", kind.opts),
							phase.ApplierOptions[myPhase]{Owner: fmt.Sprintf("replica-%d", i), RetryFor: time.Hour, Hooks: phase.Hooks[myPhase]{
								Transition: func(_ context.Context, c phase.Change[myPhase]) {
									mu.Lock()
									defer mu.Unlock()
									if c.Event == phase.EventStart {
										claims++
									}
									if c.Terminal {
										ends++
									}
								},
							}})
						if err != nil {
							t.Fatal(err)
						}
						wg.Go(func() {
							defer p.die()
							for p.ctx.Err() == nil {
								state, err := a.Load(p.ctx)
								if err == nil && a.Machine().IsTerminal(state.Phase) {
									return
								}
								if err == nil {
									time.Sleep(time.Duration(r.IntN(30)) * time.Millisecond)
									_, err = step(p.ctx, a, state)
								}
								if conflict, ok := errors.AsType[*phase.ConflictError](err); ok && conflict.Found == "" {
									t.Errorf("conflict = %+v, want what was found", conflict)
								} else if err != nil && !ok {
									t.Errorf("seed %d: %v", seed, err)
								}
							}
						})
					}
					wg.Wait()
					seen.check(t, fmt.Sprintf("seed %d", seed))
					if kind.opts.Fields.Owner != "" && (claims > 1 || ends != 1) {
						t.Errorf("seed %d: claimed %d times, ended %d times, want at most once and once", seed, claims, ends)
					}
				})
			}
		})
	}
}

// P5: B4: on client-go's bare fake, which compares no versions, a process that dies after any write is followed by another.
func TestEveryWriteFailsOnTheBareFake(t *testing.T) {
	t.Parallel()
	for k := range 4 {
		client := newFake(t)
		object := phasekube.NewConfigMap[myPhase](client, "app", "run-1")
		for _, after := range []int{k, 99} {
			ctx, die := context.WithCancel(t.Context())
			a := newApplier(t, &mortal{Object: object, after: after, die: die})
			for ctx.Err() == nil {
				state, err := a.Load(ctx)
				if err == nil && a.Machine().IsTerminal(state.Phase) {
					break
				}
				_, _ = step(ctx, a, state)
			}
			die()
		}
		state, err := object.Get(t.Context())
		if err != nil || state.Phase != phase.PartiallyFailed || state.Reason != phase.ReasonOperationsFailed {
			t.Errorf("write %d: ended as %+v, %v", k, state, err)
		}
	}
}

// mortal is an object whose process dies after a write.
type mortal struct {
	phase.Object[myPhase]
	after, n int
	die      context.CancelFunc
}

func (m *mortal) Update(ctx context.Context, old phase.State[myPhase], c phase.Change[myPhase]) (phase.State[myPhase], error) {
	next, err := m.Object.Update(ctx, old, c)
	if m.n++; m.n == m.after+1 {
		m.die()
		return old, ctx.Err()
	}
	return next, err
}
