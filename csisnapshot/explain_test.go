package csisnapshot_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

func TestDiagnosesWatchedAndPolled(t *testing.T) {
	t.Parallel()
	// S1 S7 snap-10: each history has its own diagnosis, the same by watch and by poll, with the driver's own words where there are
	// any and the next thing to look at.
	tests := map[string]struct {
		reason   string
		script   backuptest.Script
		class    string
		silent   bool // no snapshot-controller runs
		final    bool // InvalidArgument is
		during   func(l *waitLab)
		want     csisnapshot.Diagnosis
		category error
		cause    string
	}{
		"never picked up": {reason: "nothing has touched it", silent: true, want: csisnapshot.DiagnosisNeverPickedUp, category: csisnapshot.ErrTimeout},
		"no progress":     {reason: "picked up, and then nothing", script: backuptest.Script{CutAfter: time.Second, ReadyAfter: 100 * time.Hour}, want: csisnapshot.DiagnosisNoProgress, category: csisnapshot.ErrTimeout},
		"error": {
			reason: "the driver refuses without end", script: backuptest.Script{Errors: manyErrors("Internal", "disk full")},
			want: csisnapshot.DiagnosisError, category: csisnapshot.ErrTimeout, cause: "Internal: disk full",
		},
		"final": {
			reason: "the classifier ends it", script: backuptest.Script{Errors: manyErrors("InvalidArgument", "no such volume")}, final: true,
			want: csisnapshot.DiagnosisFinal, category: csisnapshot.ErrFinal, cause: "InvalidArgument: no such volume",
		},
		"class missing": {reason: "the class does not exist", class: "nowhere", want: csisnapshot.DiagnosisClassMissing, category: csisnapshot.ErrTimeout, cause: `"nowhere" not found`},
		"deleted": {
			reason: "someone deletes it", script: backuptest.Script{CutAfter: time.Hour}, want: csisnapshot.DiagnosisDeleted, category: csisnapshot.ErrDeleted,
			during: func(l *waitLab) {
				if err := l.client.Snapshots().Delete(l.Context(), "app", l.ref(0).Name, csisnapshot.Preconditions{}); err != nil {
					l.Error(err)
				}
			},
		},
	}
	for name, tt := range tests {
		for _, mode := range []csisnapshot.Mode{csisnapshot.ModeWatch, csisnapshot.ModePoll} {
			t.Run(name+"/"+mode.String(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					l := newWaitLab(t, "dynamic", scripts(1, tt.script), 1)
					if tt.silent {
						l.stopController()
					}
					vs := l.object(0)
					if tt.class != "" {
						vs.Class = &tt.class
					}
					if _, err := l.client.Snapshots().Create(t.Context(), vs); err != nil {
						t.Fatal(err)
					}
					if tt.during != nil {
						l.all.Go(func() { time.Sleep(30 * time.Second); tt.during(l) })
					}
					opts := csisnapshot.WaitOptions{Mode: mode}
					if tt.final {
						opts.Classifier = csisnapshot.FinalCodes("InvalidArgument")
					}
					outcomes, err := l.snapshotter(opts).Wait(t.Context(), l.owner, csisnapshot.StageReady, vs.Ref())
					if err != nil {
						t.Fatal(err)
					}
					e, ok := errors.AsType[*csisnapshot.WaitError](outcomes[0].Err)
					if !ok || e.Diagnosis != tt.want || !errors.Is(e, tt.category) {
						t.Fatalf("%v, want %s and %v: %s", outcomes[0].Err, tt.want, tt.category, tt.reason)
					}
					if x := e.Explain(); !strings.Contains(x.Cause, tt.cause) || x.Next == "" || x.Diagnosis != tt.want {
						t.Errorf("%+v, want the cause %q", x, tt.cause)
					}
				})
			})
		}
	}
}

// manyErrors are more errors than a wait sees.
func manyErrors(code, text string) []backuptest.DriverError {
	var all []backuptest.DriverError
	for range 100 {
		all = append(all, backuptest.DriverError{Code: code, Text: text})
	}
	return all
}

func TestExplainFindsTheMostSpecificCause(t *testing.T) {
	t.Parallel()
	// S7: content before snapshot before events, and the driver's own words.
	status := func(text string) *csisnapshot.StatusError { return &csisnapshot.StatusError{Message: &text} }
	onContent := &csisnapshot.Content{Driver: "d", Status: &csisnapshot.ContentStatus{Error: status(`Failed to create snapshot: x: "rpc error: code = Internal desc = disk full"`)}}
	onSnapshot := &csisnapshot.Snapshot{Status: &csisnapshot.SnapshotStatus{Error: status("copied\nwords")}}
	old := csisnapshot.EventNote{Reason: "Old", Message: "m", Warning: true, Last: time.Unix(1, 0)}
	late := csisnapshot.EventNote{Reason: "Late", Message: "rpc error: code = Aborted desc = busy", Warning: true, Last: time.Unix(2, 0)}
	normal := csisnapshot.EventNote{Reason: "Created", Last: time.Unix(3, 0)}
	tests := map[string]struct {
		evidence      csisnapshot.Evidence
		cause, source string
	}{
		"nothing":  {},
		"content":  {csisnapshot.Evidence{Content: onContent, Snapshot: onSnapshot, Events: []csisnapshot.EventNote{late}}, "Internal: disk full", "content"},
		"snapshot": {csisnapshot.Evidence{Snapshot: onSnapshot, Events: []csisnapshot.EventNote{late}}, "copied; words", "snapshot"},
		"content event": {
			csisnapshot.Evidence{ContentEvents: []csisnapshot.EventNote{old, late, normal}, Events: []csisnapshot.EventNote{old}}, "Late: Aborted: busy", "event of the content",
		},
		"snapshot event": {csisnapshot.Evidence{ContentEvents: []csisnapshot.EventNote{normal}, Events: []csisnapshot.EventNote{old}}, "Old: m", "event of the snapshot"},
		"other class": {
			csisnapshot.Evidence{Content: onContent, State: csisnapshot.State{Result: csisnapshot.Result{Driver: "v", Diagnosis: csisnapshot.DiagnosisClassOfAnother}}},
			`the content's driver is "d", the volume's "v"`, "content",
		},
		"ready": {csisnapshot.Evidence{Content: onContent, State: csisnapshot.State{Result: csisnapshot.Result{Ready: true}}}, "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if x := csisnapshot.Explain(tt.evidence); x.Cause != tt.cause || x.Source != tt.source {
				t.Errorf("%+v, want %q from %q", x, tt.cause, tt.source)
			}
		})
	}
	for _, d := range []csisnapshot.Diagnosis{
		csisnapshot.DiagnosisQueued, csisnapshot.DiagnosisSidecarSilent, csisnapshot.DiagnosisNotFound, csisnapshot.DiagnosisReplaced,
		csisnapshot.DiagnosisNotStarted, csisnapshot.DiagnosisUnreadable, "Other",
	} {
		if d.Next() == "" {
			t.Errorf("%s: nothing to look at", d)
		}
	}
}

func TestExplainReadsEvents(t *testing.T) {
	t.Parallel()
	// S7: a driver that refuses to delete stands in no status, only in an event of the content.
	onEachAdapter(t, func(t bubble) {
		l := newWaitLab(t.T, t.adapter, scripts(1, backuptest.Script{CutAfter: time.Hour}), 1)
		s := l.snapshotter(csisnapshot.WaitOptions{})
		if x, err := s.Explain(t.Context(), l.ref(0), ""); err != nil || x.Diagnosis != csisnapshot.DiagnosisNotFound {
			t.Errorf("none: %+v, %v", x, err)
		}
		missing := l.object(0)
		missing.Class = new("nowhere")
		if _, err := l.client.Snapshots().Create(t.Context(), missing); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if x, err := s.Explain(t.Context(), l.ref(0), backuptest.DefaultDriver); err != nil || x.Diagnosis != csisnapshot.DiagnosisClassMissing || !strings.Contains(x.Cause, "nowhere") {
			t.Errorf("no class: %+v, %v", x, err)
		}
		l.cluster.Fault(backuptest.Fault{Verb: "get", Resource: "volumesnapshots", Code: 403})
		if _, err := s.Explain(t.Context(), l.ref(0), ""); err == nil {
			t.Error("a read that is refused is no error")
		}
	})
}
