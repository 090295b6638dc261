package finalize_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/finalize"
)

type thawer []error // of the calls, in order

func (t *thawer) Thaw(_ context.Context, owner csisnapshot.Owner) ([]csisnapshot.ThawReport, error) {
	pod := csisnapshot.PodRef{Namespace: owner.Namespace, Name: "db-0"}
	report := csisnapshot.ThawReport{Pod: pod, Outcome: csisnapshot.ThawDone}
	if fault := (*t)[0]; fault != nil {
		report.Outcome, report.Err = csisnapshot.ThawFailed, fault
	}
	*t = (*t)[1:]
	return []csisnapshot.ThawReport{report}, nil
}

// S5 F3: a pod that stays frozen fails the hook and is named; a thaw that works at last fails nothing.
func TestThawPods(t *testing.T) {
	t.Parallel()
	exit := errors.New("exit 1")
	for name, tc := range map[string]struct {
		reason string
		calls  thawer
		errors int
		state  finalize.State
	}{
		"thawed":         {"nothing to tell", thawer{nil}, 0, finalize.Succeeded},
		"thawed at last": {"the hook is retried", thawer{exit, exit, nil}, 0, finalize.Succeeded},
		"never thawed":   {"somebody must look at the pod", thawer{exit, exit, exit, exit}, 1, finalize.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				runner, err := finalize.New([]finalize.Hook{finalize.ThawPods(&tc.calls, csisnapshot.Owner{UID: "u", Namespace: "app", Name: "b"})}, finalize.Options{})
				if err != nil {
					t.Fatal(err)
				}
				report, err := runner.Run(t.Context())
				if err != nil || report.Errors() != tc.errors || report.Hooks[0].State != tc.state {
					t.Fatalf("%s: %d errors, %+v, %v, want %d and %s", tc.reason, report.Errors(), report.Hooks, err, tc.errors, tc.state)
				}
				for _, item := range report.Hooks[0].Items {
					if item.Namespace != "app" || item.Name != "db-0" {
						t.Errorf("item %+v does not name the pod", item)
					}
				}
			})
		})
	}
}
