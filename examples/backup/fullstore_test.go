package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sheetanchor/sheetanchor/examples/internal/program"
	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/phase"
)

// fullStore refuses every write after the backup's last steps have begun.
type fullStore struct {
	operations.Store

	full bool
}

func (s *fullStore) Write(ctx context.Context, name string, data []byte, old string) (string, error) {
	if s.full {
		return "", errors.New("507 insufficient storage")
	}
	s.full = name == newFiles("demo").phase() && bytes.Contains(data, []byte(`"to":"Finalizing"`))
	return s.Store.Write(ctx, name, data, old)
}

// A store that is full while the last steps are done does not leave the backup in Finalizing for ever: it ends as no
// success, with the reason, and the record follows when there is room again. P6, phase-17, fin-23.
func TestFullStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slowScripts())
		store := &fullStore{Store: w.store}
		began := time.Now()
		var object *corev1.ConfigMap
		for range 20 { // somebody runs it again every quarter of an hour
			if _, _, err := w.runOn(nil, testOptions(t), store); err == nil {
				t.Error("a run on a full store succeeds")
			}
			var err error
			if object, err = w.core().CoreV1().ConfigMaps("shop").Get(t.Context(), objectName("demo"), metav1.GetOptions{}); err != nil {
				t.Fatal(err)
			}
			if phase.Backup[Phase]().IsTerminal(Phase(object.Data["phase"])) {
				break
			}
			time.Sleep(15 * time.Minute)
		}
		if took := time.Since(began); took < 2*time.Hour || took > 3*time.Hour {
			t.Errorf("it took %v, want little more than 2h", took)
		}
		if object.Data["phase"] != phase.Failed || object.Data["reason"] != phase.ReasonStoreUnavailable || object.Data["completionTimestamp"] == "" {
			t.Errorf("the object says %v, want Failed, StoreUnavailable and its time", object.Data)
		}
		store.full = false
		if _, code, err := w.runOn(nil, testOptions(t), store); err != nil || code != program.ExitOther {
			t.Errorf("a run when there is room = exit %d, %v, want %d", code, err, program.ExitOther)
		}
		data, err := operations.NewSlot(w.store, newFiles("demo").phase()).Load(t.Context())
		if err != nil || !strings.Contains(string(data), phase.ReasonStoreUnavailable) {
			t.Errorf("the record is %s, %v, want the object's end", data, err)
		}
	})
}
