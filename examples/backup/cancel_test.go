package main

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/dynamic"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/examples/internal/program"
	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/phase"
	"github.com/sheetanchor/sheetanchor/phase/phasekube"
)

// A backup that is canceled after its process has ended ends as Failed with the reason Canceled, and no pod stays frozen,
// wherever the process was. P2 S5 F7.
func TestCancelAfterCrash(t *testing.T) {
	t.Parallel()
	for k := 2; k <= 20; k += 2 {
		t.Run(fmt.Sprintf("write %d", k), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slowScripts())
				if _, _, err := w.run(troubles{k: backuptest.CrashAfter}, testOptions(t)); !errors.Is(err, backuptest.ErrCrashed) {
					t.Fatalf("the first process ended with %v, want that it was killed", err)
				}
				w.cancel(t)
				r, code, err := w.run(nil, testOptions(t))
				if err != nil || code != program.ExitOther || r.Phase != phase.Failed || r.Reason != phase.ReasonCanceled {
					t.Errorf("exit %d, phase %s, reason %s, error %v, want 1, Failed, Canceled and none", code, r.Phase, r.Reason, err)
				}
				w.checkThawed(t.Context())
			})
		})
	}
}

// cancel is what a command line tool does.
func (w *world) cancel(t *testing.T) {
	t.Helper()
	client, err := dynamic.NewForConfig(w.config())
	if err != nil {
		t.Fatal(err)
	}
	object, err := findBackup(t.Context(), clients{core: w.core()}, "shop", "demo")
	if err != nil || object == nil {
		t.Fatalf("the backup object is %v, %v", object, err)
	}
	record := phase.NewDocumentRecord[Phase](operations.NewSlot(w.store, newFiles("demo").phase()), string(object.UID))
	applier, err := phase.NewApplier(phase.Backup[Phase](), phasekube.NewConfigMap[Phase](client, "shop", object.Name),
		phase.ApplierOptions[Phase]{Record: record, Owner: "a person"})
	if err != nil {
		t.Fatal(err)
	}
	state, err := applier.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := applier.Apply(t.Context(), state, phase.EventCancel, "not needed any more"); err != nil {
		t.Fatal(err)
	}
}
