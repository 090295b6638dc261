package tracktest

import (
	"context"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sheetanchor/sheetanchor/test/compare/internal/table"
	"github.com/sheetanchor/sheetanchor/test/compare/internal/velerotest"
)

// The ways in which it is known what Velero ends with.
const (
	run   = "run"
	read  = "read in source"
	fixed = "fixed there"
)

// ending is what one side came to: words for people, and whether nothing was lost.
type ending struct {
	text string
	good bool
}

func ended(good bool, format string, args ...any) ending {
	return ending{fmt.Sprintf(format, args...), good}
}

// scenario is one kind of trouble. Both functions are called in bubbles of their own.
type scenario struct {
	id, what string
	velero   func(t *testing.T) ending
	ours     func(t *testing.T) ending
	// plain runs Velero's part outside of a bubble.
	plain bool
	// how is "run" when empty; with another one told is Velero's ending.
	how, told string
}

func scenarios() []scenario {
	return []scenario{
		{id: "A", what: "an operation fails; the first write of the phase fails", velero: veleroA, ours: oursA},
		{id: "B", what: "finalizing: the store refuses the metadata", velero: veleroB, ours: oursB},
		{
			id: "C", what: "finalizing: the backup's object is gone for good", how: read, ours: oursC,
			told: "tries for ever: the constructor drops resourceTimeout, and no cap means no end",
		},
		{id: "D", what: "one 503 while operations are waited for", velero: veleroD, ours: oursD},
		{id: "E", what: "one transient error of a progress call", velero: veleroE, ours: oursE},
		{id: "F", what: "an operation times out, its cancel fails, it still runs", velero: veleroF, ours: oursF},
		{id: "G", what: "an operation in an unknown phase", velero: veleroG, ours: oursG},
		{id: "H", what: "restore: the volume has a topology label and belongs to a claim of another UID", velero: veleroH, ours: oursH},
		{id: "I", what: "restore: a pending claim without a storage class", velero: veleroI, ours: oursI, plain: true},
		{
			id: "J", what: "restore: a hook that is never recorded", how: fixed, ours: oursJ,
			told: "the wait ends after resourceTimeout",
		},
		{id: "K", what: "volume records of a backup with a name of 70 characters", velero: veleroK, ours: oursK},
		{id: "L", what: "volume records: a content without a status", velero: veleroL, ours: oursL},
		{id: "M", what: "the handle's wait: a status error without a message", velero: veleroM, ours: oursM},
		{id: "N", what: "the handle's wait: the first read fails, the cut is there", velero: veleroN, ours: oursN},
		{id: "O", what: "the same error on the snapshot alone, and on the content alone", velero: veleroO, ours: oursO},
	}
}

// Outcomes runs every scenario through both.
func Outcomes(t *testing.T) []table.Outcome {
	t.Helper()
	var out []table.Outcome
	for _, s := range scenarios() {
		o := table.Outcome{ID: s.id, Scenario: s.what, Version: velerotest.Version(), How: s.how, Velero: s.told}
		if s.velero != nil {
			o.How = run
			if s.plain {
				o.Velero = s.velero(t).text
			} else {
				synctest.Test(t, func(t *testing.T) { o.Velero = s.velero(t).text })
			}
		}
		synctest.Test(t, func(t *testing.T) {
			end := s.ours(t)
			o.Ours, o.Kept = end.text, end.good
		})
		out = append(out, o)
	}
	return out
}

// childVariable names the scenario that a process is started for alone, because Velero's code ends the process in it.
const childVariable = "SHEETANCHOR_COMPARE_SCENARIO"

// Child runs the scenario that this process was started for, and reports whether it was started for one. Call it first in main.
func Child() bool {
	if os.Getenv(childVariable) != "I" {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) //nolint:forbidigo // the main function of a child process
	defer cancel()
	_, _ = fmt.Fprintln(os.Stderr, childI(ctx))
	return true
}

// caught is f's panic as text; empty if there was none.
func caught(f func()) (text string) {
	defer func() {
		if v := recover(); v != nil {
			text = fmt.Sprint(v)
		}
	}()
	f()
	return ""
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// namespaces are those of Velero and of the workload.
func namespaces() []runtime.Object {
	var all []runtime.Object
	for _, name := range []string{velerotest.Namespace, "app"} {
		all = append(all, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return all
}
