package phase_test

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sheetanchor/sheetanchor/phase"
)

// P8: the conditions of every phase of every machine keep the rules that kstatus reads by: exactly one of Ready,
// Reconciling and Stalled is true, and Finished says whether the work has ended.
func TestConditionsOfEveryPhase(t *testing.T) {
	t.Parallel()
	reason := regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`) // of the API server
	for name, m := range readyMade(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, tr := range m.Transitions() {
				spec, _ := m.Spec(tr.To)
				c := phase.Change[MyPhase]{From: tr.From, To: tr.To, At: someTime, Class: spec.Class, Failing: spec.Failing}
				conditions := c.Conditions(3, nil)
				got := map[string]bool{}
				for _, cond := range conditions {
					got[cond.Type] = cond.Status == metav1.ConditionTrue
					if !reason.MatchString(cond.Reason) || cond.ObservedGeneration != 3 || !cond.LastTransitionTime.Time.Equal(someTime) || cond.Message == "" {
						t.Errorf("to %q: condition %+v", tr.To, cond)
					}
				}
				want := map[string]bool{
					"Ready": m.IsTerminal(tr.To) && !m.IsFailing(tr.To), "Stalled": m.IsTerminal(tr.To) && m.IsFailing(tr.To),
					"Reconciling": !m.IsTerminal(tr.To), "Finished": m.IsTerminal(tr.To),
				}
				if diff := cmp.Diff(want, got); diff != "" || len(conditions) != 4 {
					t.Errorf("to %q: %d conditions (-want +got):\n%s", tr.To, len(conditions), diff)
				}
			}
		})
	}
}

// P8: an object's other conditions are kept; the time of a condition changes with its status only.
func TestConditionsAreUpdated(t *testing.T) {
	t.Parallel()
	hour := metav1.NewTime(someTime)
	old := []metav1.Condition{
		{Type: "Stalled", Status: "False", LastTransitionTime: hour, Reason: "Old", ObservedGeneration: 1},
		{Type: "Owned", Status: "True", Reason: "Theirs"},
		{Type: "Ready", Status: "False", LastTransitionTime: hour, Reason: "Old", ObservedGeneration: 1},
		{Type: "Reconciling", Status: "True"},
	}
	before := slices.Clone(old)
	later := someTime.Add(time.Hour)
	c := phase.Change[MyPhase]{
		To: phase.PartiallyFailed, Reason: phase.ReasonItemErrors, Message: "2 errors", At: later, Class: phase.ClassTerminal, Failing: true,
	}
	text := "PartiallyFailed: 2 errors"
	want := []metav1.Condition{
		{Type: "Stalled", Status: "True", LastTransitionTime: metav1.NewTime(later), Reason: "ItemErrors", Message: text, ObservedGeneration: 2},
		{Type: "Owned", Status: "True", Reason: "Theirs"},
		{Type: "Ready", Status: "False", LastTransitionTime: hour, Reason: "ItemErrors", Message: text, ObservedGeneration: 2},
		{Type: "Reconciling", Status: "False", LastTransitionTime: metav1.NewTime(later), Reason: "ItemErrors", Message: text, ObservedGeneration: 2},
		{Type: "Finished", Status: "True", LastTransitionTime: metav1.NewTime(later), Reason: "ItemErrors", Message: text, ObservedGeneration: 2},
	}
	if diff := cmp.Diff(want, c.Conditions(2, old)); diff != "" {
		t.Errorf("Conditions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, old); diff != "" {
		t.Errorf("the argument changed (-before +after):\n%s", diff)
	}
	again := c
	again.At = later.Add(time.Hour)
	if diff := cmp.Diff(want, again.Conditions(2, want)); diff != "" {
		t.Errorf("Conditions of the same phase later (-want +got):\n%s", diff)
	}
}

// P8: the API server refuses a condition whose reason is empty or no word; such a reason is never written.
func TestConditionReasons(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change phase.Change[MyPhase]
		want   string
	}{
		"the reason":               {phase.Change[MyPhase]{Reason: "Canceled", To: "Failed", Class: phase.ClassTerminal}, "Canceled"},
		"the phase":                {phase.Change[MyPhase]{To: "InProgress", Class: phase.ClassWorking}, "InProgress"},
		"a reason that is no word": {phase.Change[MyPhase]{Reason: "not a word", To: "InProgress", Class: phase.ClassWorking}, "InProgress"},
		"a phase that is no word":  {phase.Change[MyPhase]{To: "to be queued", Class: phase.ClassReady}, "Ready"},
		"no class either":          {phase.Change[MyPhase]{To: "to be queued"}, "Class"},
		"a long reason":            {phase.Change[MyPhase]{Reason: strings.Repeat("x", 1025), To: "New", Class: phase.ClassReady}, "New"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, cond := range tc.change.Conditions(1, nil) {
				if cond.Reason != tc.want {
					t.Errorf("%s: reason %q, want %q", cond.Type, cond.Reason, tc.want)
				}
			}
		})
	}
}

// P4: phase-6: an owner is dead only when that is proved: its time and the difference of clocks have passed, or it is
// deposed. A heartbeat that says nothing proves nothing.
func TestHeartbeatLife(t *testing.T) {
	t.Parallel()
	const valid, skew = 15 * time.Second, 5 * time.Second
	tests := map[string]struct {
		beat phase.Heartbeat
		skew time.Duration
		want phase.Life
	}{
		"none":                   {phase.Heartbeat{}, skew, phase.LifeUnknown},
		"good for no time":       {phase.Heartbeat{Renewed: someTime.Add(-time.Hour)}, skew, phase.LifeUnknown},
		"never renewed":          {phase.Heartbeat{ValidFor: valid}, skew, phase.LifeUnknown},
		"just now":               {phase.Heartbeat{Renewed: someTime, ValidFor: valid}, skew, phase.Live},
		"a clock ahead of ours":  {phase.Heartbeat{Renewed: someTime.Add(time.Hour), ValidFor: valid}, skew, phase.Live},
		"at its end":             {phase.Heartbeat{Renewed: someTime.Add(-valid), ValidFor: valid}, 0, phase.Live},
		"after its end":          {phase.Heartbeat{Renewed: someTime.Add(-valid - 1), ValidFor: valid}, 0, phase.Dead},
		"within the skew":        {phase.Heartbeat{Renewed: someTime.Add(-valid - skew), ValidFor: valid}, skew, phase.Live},
		"after the skew":         {phase.Heartbeat{Renewed: someTime.Add(-valid - skew - 1), ValidFor: valid}, skew, phase.Dead},
		"negative skew is none":  {phase.Heartbeat{Renewed: someTime.Add(-valid), ValidFor: valid}, -time.Hour, phase.Live},
		"deposed, though recent": {phase.Heartbeat{Renewed: someTime, ValidFor: valid, Deposed: true}, skew, phase.Dead},
		"deposed, nothing else":  {phase.Heartbeat{Deposed: true}, skew, phase.Dead},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tc.beat.Life(someTime, tc.skew)
			if got != tc.want {
				t.Errorf("%+v.Life = %v, want %v", tc.beat, got, tc.want)
			}
			if until := tc.beat.Until(tc.skew); (got == phase.Live) != (!until.IsZero() && !someTime.After(until)) {
				t.Errorf("%+v: %v until %v", tc.beat, got, until)
			}
		})
	}
	for life, want := range map[phase.Life]string{phase.LifeUnknown: "unknown", phase.Live: "live", phase.Dead: "dead", 9: "life(9)"} {
		if life.String() != want {
			t.Errorf("String = %q, want %q", life, want)
		}
	}
}

func TestLivenessAdapters(t *testing.T) {
	t.Parallel()
	beat, err := phase.SingleOwner().Heartbeat(t.Context(), "replica-0")
	if err != nil || beat.Life(someTime, 0) != phase.Dead {
		t.Errorf("SingleOwner = %+v, %v, want a dead one", beat, err)
	}
	broken := errors.New("no lease for you")
	f := phase.LivenessFunc(func(_ context.Context, owner string) (phase.Heartbeat, error) {
		return phase.Heartbeat{ValidFor: time.Duration(len(owner))}, broken
	})
	if beat, err := f.Heartbeat(t.Context(), "abc"); beat.ValidFor != 3 || !errors.Is(err, broken) {
		t.Errorf("LivenessFunc = %+v, %v", beat, err)
	}
}
