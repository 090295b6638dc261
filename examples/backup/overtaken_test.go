package main

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sheetanchor/sheetanchor/examples/internal/program"
	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

// hungStore hangs at the first write of a document until it may go on.
type hungStore struct {
	operations.Store

	suffix     string
	hung, goOn chan struct{}
}

func (s *hungStore) Write(ctx context.Context, name string, data []byte, old string) (string, error) {
	if s.suffix != "" && strings.HasSuffix(name, s.suffix) {
		s.suffix = ""
		close(s.hung)
		<-s.goOn
	}
	return s.Store.Write(ctx, name, data, old)
}

// A process that was slow does not overwrite what its successor wrote after it took over and completed the backup. X5 O7.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	for _, document := range []string{"-volumeinfo.json.gz", "-itemoperations.json.gz", "-results.gz"} {
		t.Run(document, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slowScripts())
				memory := w.store
				slow := &hungStore{Store: memory, suffix: document, hung: make(chan struct{}), goOn: make(chan struct{})}
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					_, _, _ = w.runOn(nil, testOptions(t), slow) // how it ends is its own affair
				}()
				<-slow.hung
				r, code, err := w.run(nil, testOptions(t))
				if err != nil || code != program.ExitCompleted {
					t.Fatalf("the successor: exit %d, phase %s, error %v, want 0, Completed and none", code, r.Phase, err)
				}
				close(slow.goOn)
				<-ended
				w.check(t.Context())
				data, err := operations.NewSlot(memory, newFiles("demo").volumes()).Load(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				records, err := volumeinfo.DecodeBackup(data, volumeinfo.Limits{})
				if err != nil || len(records) != 9 {
					t.Fatalf("%d volume records, %v, want 9", len(records), err)
				}
				for _, record := range records {
					if !record.Final() {
						t.Errorf("the backup is Completed and the record of claim %s is not final", record.PVCName)
					}
				}
			})
		})
	}
}
