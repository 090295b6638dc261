package phase_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/sheetanchor/sheetanchor/phase"
)

// P7: the event follows from the counts and the phase, and from nothing else.
func TestOutcome(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		from   MyPhase
		tally  phase.Tally
		want   phase.Event // empty: it stays
	}{
		"new work stays":         {reason: "nothing was started", from: phase.New},
		"empty phase stays":      {reason: "it is the initial phase", from: ""},
		"new work with errors":   {reason: "errors of items are for later phases", from: phase.New, tally: phase.Tally{Errors: 1}},
		"new work canceled":      {reason: "nothing was processed", from: phase.New, tally: phase.Tally{Cancel: true, Fatal: true}, want: phase.EventCancel},
		"new work fatal":         {reason: "nothing was processed", from: phase.New, tally: phase.Tally{Fatal: true}, want: phase.EventFatal},
		"terminal stays":         {reason: "P2: terminal phases absorb", from: phase.Completed, tally: phase.Tally{Failed: 1, Fatal: true, Cancel: true}},
		"external stays":         {reason: "it is being deleted", from: phase.Deleting, tally: phase.Tally{Failed: 1}},
		"items, no operations":   {reason: "finalizing is never skipped", from: phase.InProgress, want: phase.EventFinalize},
		"items, only warnings":   {reason: "warnings decide nothing", from: phase.InProgress, tally: phase.Tally{Warnings: 9}, want: phase.EventFinalize},
		"items, operations done": {reason: "there is nothing to wait for", from: phase.InProgress, tally: phase.Tally{Completed: 3}, want: phase.EventFinalize},
		"items, operations run":  {reason: "they are awaited", from: phase.InProgress, tally: phase.Tally{Running: 1, Completed: 3}, want: phase.EventWait},
		"one operation failed early": {
			reason: "phase-11: it is recorded at once, though others run",
			from:   phase.InProgress, tally: phase.Tally{Running: 1, Failed: 1}, want: phase.EventWaitPartiallyFailed,
		},
		"hook error, operations run": {
			reason: "an item or hook error is a failure", from: phase.InProgress,
			tally: phase.Tally{Running: 1, Errors: 1}, want: phase.EventWaitPartiallyFailed,
		},
		"hook error, no operations": {
			reason: "an item or hook error is a failure", from: phase.InProgress,
			tally: phase.Tally{Errors: 1}, want: phase.EventFinalizePartiallyFailed,
		},
		"fatal, operations run": {
			reason: "P2: also a fatal error goes through finalizing, when nothing runs", from: phase.InProgress,
			tally: phase.Tally{Running: 2, Fatal: true}, want: phase.EventWaitPartiallyFailed,
		},
		"fatal, no operations": {
			reason: "P2: also a fatal error goes through finalizing", from: phase.InProgress,
			tally: phase.Tally{Fatal: true}, want: phase.EventFinalizePartiallyFailed,
		},
		"cancel, no operations": {
			reason: "P2: also a cancel goes through finalizing", from: phase.InProgress,
			tally: phase.Tally{Cancel: true}, want: phase.EventFinalizePartiallyFailed,
		},
		"waiting, one runs":      {reason: "phase-13: never left while one runs", from: phase.WaitingForPluginOperations, tally: phase.Tally{Running: 1, Completed: 8}},
		"waiting, all completed": {reason: "nothing failed", from: phase.WaitingForPluginOperations, tally: phase.Tally{Completed: 8}, want: phase.EventFinalize},
		"waiting, none at all":   {reason: "nothing failed", from: phase.WaitingForPluginOperations, want: phase.EventFinalize},
		"waiting, one failed, one runs": {
			reason: "phase-11: the failure is recorded first", from: phase.WaitingForPluginOperations,
			tally: phase.Tally{Running: 1, Failed: 1}, want: phase.EventWaitPartiallyFailed,
		},
		"waiting, one failed": {
			reason: "phase-12: a failed child forbids Completed", from: phase.WaitingForPluginOperations,
			tally: phase.Tally{Completed: 5, Failed: 1}, want: phase.EventFinalizePartiallyFailed,
		},
		"waiting, one canceled": {
			reason: "phase-12: so does a canceled one", from: phase.WaitingForPluginOperations,
			tally: phase.Tally{Completed: 5, Canceled: 1}, want: phase.EventFinalizePartiallyFailed,
		},
		"waiting, one abandoned": {
			reason: "phase-12: so does an abandoned one", from: phase.WaitingForPluginOperations,
			tally: phase.Tally{Completed: 5, Abandoned: 1}, want: phase.EventFinalizePartiallyFailed,
		},
		"failing wait, one runs": {
			reason: "it is recorded already", from: phase.WaitingForPluginOperationsPartiallyFailed,
			tally: phase.Tally{Running: 1, Failed: 1, Cancel: true},
		},
		"failing wait, counts are clean": {
			reason: "failure is sticky whatever the counts say", from: phase.WaitingForPluginOperationsPartiallyFailed,
			tally: phase.Tally{Completed: 2}, want: phase.EventFinalizePartiallyFailed,
		},
		"finalized":                {reason: "nothing failed", from: phase.Finalizing, tally: phase.Tally{Completed: 2, Warnings: 1}, want: phase.EventCompleted},
		"finalized, hook error":    {reason: "the last steps count too", from: phase.Finalizing, tally: phase.Tally{Errors: 1}, want: phase.EventPartiallyFailed},
		"finalized, fatal hook":    {reason: "the policy of a hook may be to fail", from: phase.Finalizing, tally: phase.Tally{Fatal: true, Errors: 1}, want: phase.EventFailed},
		"finalized, cancel":        {reason: "a cancel makes other things fail", from: phase.Finalizing, tally: phase.Tally{Fatal: true, Cancel: true}, want: phase.EventCanceled},
		"finalizing, one runs":     {reason: "phase-13: nothing ends while one runs", from: phase.Finalizing, tally: phase.Tally{Running: 1}},
		"failing finalized, clean": {reason: "failure is sticky", from: phase.FinalizingPartiallyFailed, tally: phase.Tally{Completed: 2}, want: phase.EventPartiallyFailed},
		"failing finalized, fatal": {reason: "it ends as Failed", from: phase.FinalizingPartiallyFailed, tally: phase.Tally{Fatal: true}, want: phase.EventFailed},
	}
	m := phase.Backup[MyPhase]()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ev, move, err := m.Outcome(tc.from, tc.tally)
			if err != nil || ev != tc.want || move != (tc.want != "") {
				t.Errorf("Outcome(%q, %+v) = %q, %v, %v, want %q: %s", tc.from, tc.tally, ev, move, err, tc.want, tc.reason)
			}
		})
	}
}

// P7, P2: of every phase and every tally: the event is legal, the same when asked again, keeps a failure, ends nothing
// while an operation runs, and does not depend on warnings and text.
func TestOutcomeOfEveryTally(t *testing.T) {
	t.Parallel()
	for name, m := range readyMade(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := 0
			for _, tally := range tallies() {
				for _, p := range m.Phases() {
					n++
					ev, move, err := m.Outcome(p, tally)
					if err != nil || move != (ev != "") {
						t.Fatalf("Outcome(%q, %+v) = %q, %v, %v", p, tally, ev, move, err)
					}
					noisy := tally
					noisy.Warnings, noisy.Message = 7, "noise"
					if ev2, move2, err := m.Outcome(p, noisy); ev2 != ev || move2 != move || err != nil {
						t.Fatalf("Outcome(%q, %+v) = %q, %v, %v, without noise %q", p, noisy, ev2, move2, err, ev)
					}
					if !move {
						continue
					}
					to, err := m.Next(p, ev)
					if err != nil {
						t.Fatalf("Outcome(%q, %+v) = %q, which is not legal: %v", p, tally, ev, err)
					}
					failed := m.IsFailing(p) || tally.Failed+tally.Canceled+tally.Abandoned+tally.Errors > 0 || tally.Fatal || tally.Cancel
					if failed != m.IsFailing(to) {
						t.Errorf("Outcome(%q, %+v) leads to %q: failed %v, kept %v", p, tally, to, failed, m.IsFailing(to))
					}
					if tally.Running > 0 && (m.IsFinalizing(to) || m.IsTerminal(to)) && m.Class(p) != phase.ClassReady {
						t.Errorf("Outcome(%q, %+v) leads to %q while operations run", p, tally, to)
					}
					if tally.Running == 0 && m.IsWaiting(to) {
						t.Errorf("Outcome(%q, %+v) waits in %q for nothing", p, tally, to)
					}
				}
			}
			t.Logf("%d outcomes", n)
		})
	}
}

// tallies are all combinations of none and some.
func tallies() []phase.Tally {
	var all []phase.Tally
	for bits := range 1 << 8 {
		some := func(i int) int { return bits >> i & 1 }
		all = append(all, phase.Tally{
			Running: some(0), Completed: some(1), Failed: some(2), Canceled: some(3), Abandoned: some(4), Errors: some(5),
			Fatal: some(6) == 1, Cancel: some(7) == 1,
		})
	}
	return all
}

// P2: by outcomes alone, work that does not stop to report runs from the start to the right end in a few steps.
func TestOutcomeReachesTheEnd(t *testing.T) {
	t.Parallel()
	m := phase.Backup[MyPhase]()
	for _, tally := range tallies() {
		at, steps := MyPhase(phase.InProgress), 0
		for !m.IsTerminal(at) {
			now := tally
			if m.Class(at) == phase.ClassFinalizing || steps > 2 {
				now.Running = 0 // they end some time
			}
			ev, move, err := m.Outcome(at, now)
			if err != nil || steps > 9 {
				t.Fatalf("Outcome(%q, %+v) = %q, %v, %v after %d steps", at, now, ev, move, err, steps)
			}
			if move {
				if at, err = m.Next(at, ev); err != nil {
					t.Fatal(err)
				}
			}
			steps++
		}
		want := MyPhase(phase.Completed)
		switch {
		case tally.Cancel, tally.Fatal:
			want = phase.Failed
		case tally.Failed+tally.Canceled+tally.Abandoned+tally.Errors > 0:
			want = phase.PartiallyFailed
		}
		if at != want {
			t.Errorf("work with %+v ends in %q, want %q", tally, at, want)
		}
	}
}

func TestOutcomeRefuses(t *testing.T) {
	t.Parallel()
	m := phase.Backup[MyPhase]()
	for field, tally := range map[string]phase.Tally{
		"Running": {Running: -1}, "Completed": {Completed: -1}, "Failed": {Failed: -1}, "Canceled": {Canceled: -1},
		"Abandoned": {Abandoned: -1}, "Errors": {Errors: -1}, "Warnings": {Warnings: -1},
	} {
		if _, move, err := m.Outcome(phase.InProgress, tally); move || !errors.Is(err, phase.ErrInvalid) || !strings.Contains(err.Error(), field) {
			t.Errorf("Outcome(%+v) = %v, %v, want ErrInvalid that names %s", tally, move, err, field)
		}
	}
	if _, move, err := m.Outcome("Paused", phase.Tally{}); move || !errors.Is(err, phase.ErrUnknownPhase) {
		t.Errorf("Outcome of an unknown phase = %v, %v, want ErrUnknownPhase", move, err)
	}
	own, err := phase.NewMachine(small())
	if err != nil {
		t.Fatal(err)
	}
	if _, move, err := own.Outcome("Work", phase.Tally{Running: 1}); move || !errors.Is(err, phase.ErrIllegalTransition) {
		t.Errorf("Outcome that needs a waiting phase = %v, %v, want ErrIllegalTransition", move, err)
	}
}

func TestCause(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		tally           phase.Tally
		reason, message string
	}{
		"nothing failed":        {tally: phase.Tally{Completed: 3, Warnings: 2}},
		"cancel beats fatal":    {tally: phase.Tally{Cancel: true, Fatal: true, Message: "by alice"}, reason: "Canceled", message: "by alice"},
		"fatal beats counts":    {tally: phase.Tally{Fatal: true, Failed: 2, Message: "no disk"}, reason: "FatalError", message: "no disk"},
		"operations":            {tally: phase.Tally{Completed: 1, Failed: 2, Canceled: 1, Abandoned: 3}, reason: "OperationsFailed", message: "of 7 operations 2 failed, 1 canceled, 3 abandoned"},
		"errors":                {tally: phase.Tally{Errors: 2}, reason: "ItemErrors", message: "2 errors of items and hooks"},
		"operations and errors": {tally: phase.Tally{Failed: 1, Errors: 2}, reason: "OperationsFailed", message: "of 1 operations 1 failed; 2 errors of items and hooks"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if reason, message := tc.tally.Cause(); reason != tc.reason || message != tc.message {
				t.Errorf("Cause(%+v) = %q, %q, want %q, %q", tc.tally, reason, message, tc.reason, tc.message)
			}
		})
	}
}

func TestSplitReason(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ text, reason, message string }{
		"empty":                   {"", "", ""},
		"word":                    {"Scheduled", "Scheduled", ""},
		"word and text":           {" Scheduled: by cron: nightly ", "Scheduled", "by cron: nightly"},
		"text":                    {"two volumes are gone", "", "two volumes are gone"},
		"text with a colon":       {"cut: no class", "", "cut: no class"},
		"capitalised text":        {"No class: none", "", "No class: none"},
		"word that has a hyphen":  {"Half-done: x", "", "Half-done: x"},
		"colon without a message": {"Scheduled:", "", "Scheduled:"},
		"text that is no reason":  {": Canceled: by the peer", "", "Canceled: by the peer"},
		"word that is no reason":  {": Canceled", "", "Canceled"},
		"text with a colon first": {": : x", "", ": x"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reason, message := phase.SplitReason(tc.text)
			if reason != tc.reason || message != tc.message {
				t.Errorf("SplitReason(%q) = %q, %q, want %q, %q", tc.text, reason, message, tc.reason, tc.message)
			}
			if joined := phase.JoinReason(reason, message); joined != strings.TrimSpace(tc.text) {
				t.Errorf("JoinReason(%q, %q) = %q, want %q", reason, message, joined, tc.text)
			}
		})
	}
}

// P7: whatever a message says, it is not read back as a reason, and a reason is read back as it was.
func FuzzJoinReason(f *testing.F) {
	for _, message := range []string{
		"", "plain", "Canceled", "Canceled: the upstream closed the stream", " FatalError: x", ": Canceled", ": : Canceled: x",
		"Canceled:", "Canceled:\nx", "\u00a0Canceled: x", ":", ": ", "\xff: x",
	} {
		for _, reason := range []string{"", phase.ReasonCanceled, "Timeout", "Canceled: or not", "no word"} {
			f.Add(reason, message)
		}
	}
	word := regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
	f.Fuzz(func(t *testing.T, reason, message string) {
		text := phase.JoinReason(reason, message)
		gotReason, gotMessage := phase.SplitReason(text)
		if !word.MatchString(reason) {
			if gotReason != "" {
				t.Errorf("%q, %q was joined to %q and read back with the reason %q", reason, message, text, gotReason)
			}
			if reason != "" {
				return
			}
		}
		if gotReason != reason || gotMessage != strings.TrimSpace(message) {
			t.Errorf("%q, %q was joined to %q and read back as %q, %q", reason, message, text, gotReason, gotMessage)
		}
	})
}
