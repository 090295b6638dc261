package phasekube_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sheetanchor/sheetanchor/phase"
	"github.com/sheetanchor/sheetanchor/phase/phasekube"
)

// store is a document in memory that can be made to fail.
type store struct {
	data []byte
	err  error
}

func (s *store) Load(context.Context) ([]byte, error) { return s.data, s.err }

func (s *store) Save(_ context.Context, data []byte) error {
	if s.err == nil {
		s.data = data
	}
	return s.err
}

// P6: fin-23: the object keeps since when the last steps run, so that a process that can read nothing else ends it in time.
func TestFinalizingIsKept(t *testing.T) {
	t.Parallel()
	annotated := phasekube.VeleroFields()
	annotated.Finalizing = `metadata.annotations.example\.dev/finalizing-since`
	tests := map[string]struct {
		config bool
		fields phasekube.Fields
		path   []string
		max    time.Duration
		kept   bool
	}{
		"in a ConfigMap":            {config: true, path: []string{"data", "finalizingTimestamp"}, max: time.Hour, kept: true},
		"in an annotation":          {fields: annotated, path: []string{"metadata", "annotations", "example.dev/finalizing-since"}, max: time.Hour, kept: true},
		"not without MaxFinalize":   {config: true, path: []string{"data", "finalizingTimestamp"}},
		"not on Velero's own field": {path: []string{"status", "finalizingTimestamp"}, max: time.Hour},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				_, client := newCluster(t)
				gvr, doc := backups, &store{}
				object := phasekube.New[myPhase](client, backups, "app", "run-1", phasekube.Options{Fields: tc.fields})
				if tc.config {
					gvr, object = configMaps, phasekube.NewConfigMap[myPhase](client, "app", "run-1")
				}
				first, err := object.Get(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				process := func() *phase.Applier[myPhase] {
					a, err := phase.NewApplier(phase.Backup[myPhase](), phase.Object[myPhase](object), phase.ApplierOptions[myPhase]{
						Record: phase.NewDocumentRecord[myPhase](doc, first.UID), MaxFinalize: tc.max,
					})
					if err != nil {
						t.Fatal(err)
					}
					return a
				}
				a := process()
				state, err := a.Load(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if state, err = a.Apply(t.Context(), state, phase.EventStart, ""); err != nil {
					t.Fatal(err)
				}
				if _, err = a.Advance(t.Context(), state, phase.Tally{}); err != nil {
					t.Fatal(err)
				}
				want := ""
				if tc.kept {
					want = time.Now().UTC().Format(time.RFC3339)
				}
				if got, _, err := unstructured.NestedString(raw(t, client, gvr).Object, tc.path...); err != nil || got != want {
					t.Errorf("%v = %q, %v, want %q", tc.path, got, err, want)
				}
				time.Sleep(61 * time.Minute)
				doc.err = errors.New("no route to the store")
				a = process()
				state, err = a.Load(t.Context())
				if !errors.Is(err, doc.err) || state.Phase != phase.Finalizing {
					t.Fatalf("Load with a dead store = %+v, %v", state, err)
				}
				state, err = a.Advance(t.Context(), state, phase.Tally{})
				if !errors.Is(err, doc.err) || errors.Is(err, phase.ErrStoreUnavailable) != tc.kept || (state.Phase == phase.PartiallyFailed) != tc.kept {
					t.Errorf("Advance with a dead store = %+v, %v, want an end: %v", state, err, tc.kept)
				}
				doc.err = nil
				if state, err = process().Load(t.Context()); err != nil || (state.Reason == phase.ReasonStoreUnavailable) != tc.kept {
					t.Errorf("Load when the store is back = %+v, %v", state, err)
				}
			})
		})
	}
}
