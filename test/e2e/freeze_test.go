package e2e_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/test/e2e/app"
	"github.com/sheetanchor/sheetanchor/test/e2e/audit"
	"github.com/sheetanchor/sheetanchor/test/e2e/driver"
	"github.com/sheetanchor/sheetanchor/test/e2e/kubelet"
	"github.com/sheetanchor/sheetanchor/test/e2e/stack"
)

// The size of the application of TestFreezeOrder.
const (
	hookedPods    = 10
	volumesPerPod = 3
	unhooked      = 60
)

// noFreezeLimit is longer than any freeze here: what is measured is not to be cut short.
const noFreezeLimit = 5 * time.Minute

// freeze is how long a pod was frozen, by the one who froze it and by the kubelet.
type freeze struct{ told, seen time.Duration }

// Order protects the freeze: with the controllers' default rates, of which 90 snapshots take minutes, a pod is frozen no
// longer than twice what it is alone on an idle cluster, and a second. S4, S5.
func TestFreezeOrder(t *testing.T) { //nolint:paralleltest // it measures
	c := cluster(t)
	must(t, rates(t.Context(), nil))
	spec := app.Spec{Claims: app.Named(app.Numbered("file", unhooked)...)}
	for _, name := range app.Numbered("db", hookedPods) {
		spec.Pods = append(spec.Pods, app.Pod{Name: name, Claims: app.Numbered(name, volumesPerPod), Hooked: true})
	}
	a := application(t, "freeze", spec)
	alone := freezeAlone(t, a)
	idle(t)

	record, err := c.Stack.Kubelet().Record(t.Context())
	must(t, err)
	run, err := backup(t, a).Start(within(t, 2*bound), "-o", "json", "-max-freeze", noFreezeLimit.String())
	must(t, err)
	_, err = c.Stack.Kubelet().AwaitRecord(within(t, bound), func(r kubelet.Record) bool {
		return len(thaws(r.After(record.Last()).In(a.Namespace))) == hookedPods
	})
	must(t, err)
	must(t, rates(t.Context(), hurried())) // what is measured is over
	exit, err := run.Wait(within(t, bound))
	must(t, err)
	report := completed(t, exit)
	held(t, a, report)
	now, err := c.Stack.Kubelet().Record(t.Context())
	must(t, err)
	seen := freezes(t, now.After(record.Last()).In(a.Namespace))
	told := report.Frozen()

	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "pod\talone\tkubelet\tin the backup\tkubelet\tlimit\t")
	var late []string // by the kubelet's record alone
	for _, name := range app.Numbered("db", hookedPods) {
		got := freeze{told: time.Duration(told[name] * float64(time.Second)), seen: seen[name].length()}
		limit := freeze{told: 2*alone[name].told + time.Second, seen: 2*alone[name].seen + time.Second}
		_, _ = fmt.Fprintf(w, "%s\t%.3f s\t%.3f s\t%.3f s\t%.3f s\t%.3f s\t\n", name,
			alone[name].told.Seconds(), alone[name].seen.Seconds(), got.told.Seconds(), got.seen.Seconds(), limit.told.Seconds())
		switch {
		case got.told > limit.told:
			t.Errorf("%s was frozen for %v, the kubelet says %v; alone for %v, %v", name, got.told, got.seen, alone[name].told, alone[name].seen)
		case got.seen > limit.seen:
			late = append(late, name)
		}
	}
	// The kubelet's record holds also the way of the hooks' answers through the API server, which a busy machine can hold up once. A
	// wrong order, or a program that tells a wrong time, shows in more pods than one.
	if len(late) > 1 {
		t.Errorf("the kubelet says that %v were frozen for longer than their limits", late)
	}
	_ = w.Flush()
	t.Logf("freezes with %d × %d volumes and %d unhooked, default rates:\n%s", hookedPods, volumesPerPod, unhooked, &table)
	t.Logf("requests: %v", report.Requests)
	oneAtATime(t, a, seen)
}

// held checks that the driver holds every snapshot of the report.
func held(t *testing.T, a *app.App, r app.Report) {
	t.Helper()
	cuts, err := cluster(t).Stack.Driver().Cuts(t.Context(), a.Pattern())
	must(t, err)
	for claim, handle := range r.Handles() {
		if !slices.ContainsFunc(cuts, func(c driver.Cut) bool { return c.ID == handle && c.Held && c.Claim == a.Namespace+"/"+claim }) {
			t.Errorf("the driver does not hold %s of %s", handle, claim)
		}
	}
	if got, want := len(r.Handles()), hookedPods*volumesPerPod+unhooked; got != want {
		t.Errorf("%d handles, want %d", got, want)
	}
}

// maxFreezeRatio is how much longer than by a bare watch of client-go a pod may be frozen.
const maxFreezeRatio = 1.1

// S1: S5: snap-3: a pod of 6 volumes on idle controllers with their default rates is frozen hardly longer than a bare watch of contents
// beside it needs to see the last of the same handles.
func TestFreezeBesideWatch(t *testing.T) { //nolint:paralleltest // it measures
	cluster(t)
	must(t, rates(t.Context(), nil))
	a := application(t, "beside", app.Spec{Pods: []app.Pod{{Name: "db-0", Claims: app.Numbered("v", 6), Hooked: true}}})
	var frozen time.Time // written before Cut returns
	snapshots := library(t, a, csisnapshot.Options{
		MaxFreeze: noFreezeLimit, Observer: csisnapshot.Observer{Frozen: func(csisnapshot.PodEvent) { frozen = time.Now() }},
	})
	bare := watchBare(t, a)
	idle(t)
	report := cut(t, snapshots, a, ownerOf(a, "nightly"))
	seen := bare.all()
	var last time.Duration
	for _, v := range report.Volumes {
		if seen[*v.Handle].IsZero() {
			t.Fatalf("the watch has not seen %s", *v.Handle)
		}
		last = max(last, seen[*v.Handle].Sub(frozen))
	}
	ours := report.Batches[0].Pods[0].Frozen
	ratio := ours.Seconds() / last.Seconds()
	t.Logf("6 volumes: frozen for %v, a bare watch sees the last handle after %v: ratio %.3f", ours, last, ratio)
	if ratio > maxFreezeRatio {
		t.Errorf("frozen for %v, a bare watch needs %v: ratio %.3f, want at most %.1f", ours, last, ratio, maxFreezeRatio)
	}
}

// freezeAlone backs up each pod by itself on the idle cluster, with the options of the example, and returns its freeze.
func freezeAlone(t *testing.T, a *app.App) map[string]freeze {
	t.Helper()
	c := cluster(t)
	snapshots := library(t, a, csisnapshot.Options{MaxFreeze: noFreezeLimit, Concurrency: 10})
	plan, err := snapshots.Plan(t.Context(), a.Namespace)
	must(t, err)
	alone := map[string]freeze{}
	for _, batch := range plan.Batches {
		if !batch.Hooked {
			continue
		}
		idle(t)
		record, err := c.Stack.Kubelet().Record(t.Context())
		must(t, err)
		one := &csisnapshot.Plan{Namespace: plan.Namespace, Batches: []csisnapshot.Batch{batch}}
		report, err := snapshots.Cut(within(t, bound), ownerOf(a, "alone"), one)
		must(t, err)
		must(t, report.Err())
		now, err := c.Stack.Kubelet().Record(t.Context())
		must(t, err)
		pod := report.Batches[0].Pods[0]
		alone[pod.Name] = freeze{told: pod.Frozen, seen: freezes(t, now.After(record.Last()).In(a.Namespace))[pod.Name].length()}
	}
	return alone
}

// span is a time that a pod was frozen, as the kubelet saw it.
type span struct{ from, to time.Time }

func (s span) length() time.Duration { return s.to.Sub(s.from) }

// freezes are from the end of each pod's pre hook to the start of its post hook, of which there must be one.
func freezes(t *testing.T, r kubelet.Record) map[string]span {
	t.Helper()
	spans := map[string]span{}
	for _, post := range thaws(r) {
		for _, pre := range r {
			if pre.Pod != post.Pod || pre.Command[0] != app.PreHook {
				continue
			}
			if _, twice := spans[pre.Pod]; twice {
				t.Errorf("%s was frozen twice", pre.Pod)
			}
			spans[pre.Pod] = span{from: pre.Ended, to: post.Started}
		}
	}
	return spans
}

func thaws(r kubelet.Record) []kubelet.Exec {
	return slices.DeleteFunc(slices.Clone(r), func(e kubelet.Exec) bool { return e.Command[0] != app.PostHook || e.Ended.IsZero() })
}

// oneAtATime checks that no two pods were frozen together, and that during a freeze only the pod's own snapshots were sent.
func oneAtATime(t *testing.T, a *app.App, spans map[string]span) {
	t.Helper()
	events, err := cluster(t).Stack.Audit().Events(audit.Mark{}, a.User)
	must(t, err)
	names := slices.Collect(maps.Keys(spans))
	slices.SortFunc(names, func(x, y string) int { return spans[x].from.Compare(spans[y].from) })
	for i, name := range names {
		if i > 0 && spans[name].from.Before(spans[names[i-1]].to) {
			t.Errorf("S4: %s was frozen before %s was thawed", name, names[i-1])
		}
		sent := 0
		for _, e := range events {
			if e.Verb == "create" && e.ResourcePath() == "volumesnapshots" && !e.Received.Before(spans[name].from) && e.Received.Before(spans[name].to) {
				sent++
			}
		}
		if sent != volumesPerPod {
			t.Errorf("S4: %d snapshots were sent while %s was frozen, want its %d", sent, name, volumesPerPod)
		}
	}
}

// idle waits until the snapshot controllers have asked for nothing for long enough to have their whole burst again.
func idle(t *testing.T) {
	t.Helper()
	const quiet = 2500 * time.Millisecond // 10 requests at 5 a second, and a half more
	log := cluster(t).Stack.Audit()
	since, err := log.Mark()
	must(t, err)
	asked := ""
	err = wait.PollUntilContextTimeout(t.Context(), quiet, bound, false, func(context.Context) (bool, error) {
		asked = ""
		for _, user := range []string{stack.SnapshotController, stack.Snapshotter} {
			events, err := log.Events(since, user)
			if err != nil {
				return false, err
			}
			if len(events) > 0 {
				asked = cmp.Or(asked, events[len(events)-1].String())
			}
		}
		since, err = log.Mark()
		return asked == "", err
	})
	if err != nil {
		t.Fatalf("await that the controllers are idle: %v; the last request: %s", err, asked)
	}
}
