package csisnapshot_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/internal/golden"
)

// X8: the document of freeze intents is a contract with the next release: these are its forms before and after a thaw.
func TestIntentsFormat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newCutLab(t, backuptest.ControllerOptions{}, append(claims("a"), hookedPod("pa", "a"))...)
		first := &process{lab: l, limit: 2}
		if _, err := first.live(t, cutOwner); err == nil {
			t.Fatal("not killed")
		}
		golden.Check(t, "intents-frozen.json", []byte(l.intents.content()))
		time.Sleep(90 * time.Second)
		l.mustCut(csisnapshot.Options{})
		golden.Check(t, "intents-thawed.json", []byte(l.intents.content()))
	})
}

// X8, S5: a pod that release 1 left frozen is thawed from its document.
func TestIntentsOfTheFirstReleaseAreThawed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newCutLab(t, backuptest.ControllerOptions{}, append(claims("a"), hookedPod("pa", "a"))...)
		uid := string(backuptest.UIDOf("Pod", "app", "pa"))
		l.intents.data = []byte(`{"version":1,"intents":[{"namespace":"app","pod":"pa","podUID":"` + uid +
			`","hook":"pre","owner":{"uid":"old"},"frozenAt":"1999-12-31T23:00:00Z","unknown":true}]}`)
		report := l.mustCut(csisnapshot.Options{})
		if got := l.quiescer.order(); got != "pa/post pa/pre pa/post" {
			t.Errorf("hooks ran %q, want the thaw first", got)
		}
		if len(report.Leftovers) != 1 || report.Leftovers[0].Owner.UID != "old" {
			t.Errorf("Leftovers = %+v", report.Leftovers)
		}
	})
}

// S5: pods left frozen and no way to thaw them is an error, not silence.
func TestIntentsWithoutQuiescer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newCutLab(t, backuptest.ControllerOptions{}, append(claims("a"), hookedPod("pa", "a"))...)
		first := &process{lab: l, limit: 2}
		if _, err := first.live(t, cutOwner); err == nil {
			t.Fatal("not killed")
		}
		s := l.bareSnapshotter(csisnapshot.Options{Intents: l.intents})
		plan, err := s.Plan(t.Context(), "app")
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Cut(t.Context(), cutOwner, plan)
		if !errors.Is(err, csisnapshot.ErrIntents) || !strings.Contains(err.Error(), "pod app/pa was left frozen") || l.stored() != nil {
			t.Errorf("Cut = %v with %v stored, want ErrIntents that names the pod", err, l.stored())
		}
	})
}

// The API that is down while a leftover is looked for is ridden out; a pod that may not be read is Cut's error.
func TestLeftoverPodCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fault backuptest.Fault
		fails bool
	}{
		"down for a while": {fault: backuptest.Fault{Action: backuptest.FaultRefuse, Nth: 1, Times: 5}},
		"forbidden":        {fault: backuptest.Fault{Code: 403}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newCutLab(t, backuptest.ControllerOptions{}, append(claims("a"), hookedPod("pa", "a"))...)
				first := &process{lab: l, limit: 2}
				if _, err := first.live(t, cutOwner); err == nil {
					t.Fatal("not killed")
				}
				tc.fault.Verb, tc.fault.Resource = "get", "pods"
				l.cluster.Fault(tc.fault)
				report, err := l.cut(t.Context(), csisnapshot.Options{})
				if (err != nil) != tc.fails {
					t.Errorf("Cut = %v, want an error: %v", err, tc.fails)
				}
				if tc.fails && (l.stored() != nil || !strings.Contains(err.Error(), "thaw pod app/pa, left frozen") || len(report.Leftovers) != 1) {
					t.Errorf("Cut = %v, %+v, stored %v", err, report, l.stored())
				}
			})
		})
	}
}

// FuzzIntents: whatever the document holds, Cut refuses it with ErrIntents or understands it; it never panics.
func FuzzIntents(f *testing.F) {
	f.Add([]byte(`{"version":1,"intents":[{"namespace":"app","pod":"pa","podUID":"u","frozenAt":"2000-01-01T00:00:00Z"}]}`))
	f.Add([]byte(`{"version":1`))
	f.Fuzz(func(t *testing.T, data []byte) {
		cluster, core, client, err := exampleCluster()
		if err != nil {
			t.Fatal(err)
		}
		defer cluster.Close()
		doc := &memoryDoc{data: data}
		s, err := csisnapshot.New(core, csisnapshot.NewDynamic(client), csisnapshot.Options{Quiescer: &scriptedQuiescer{}, Intents: doc})
		if err != nil {
			t.Fatal(err)
		}
		report, err := s.Cut(t.Context(), cutOwner, &csisnapshot.Plan{})
		if err != nil && (len(report.Leftovers) > 0 || doc.content() != string(data)) {
			t.Errorf("Cut = %v after %+v, document %q", err, report.Leftovers, doc.content())
		}
	})
}
