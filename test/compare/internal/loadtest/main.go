package loadtest

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"testing"
	"time"

	"github.com/sheetanchor/sheetanchor/test/compare/internal/bubbletest"
	"github.com/sheetanchor/sheetanchor/test/compare/internal/table"
	"github.com/sheetanchor/sheetanchor/test/compare/internal/velerotest"
)

// Options are those of a run.
type Options struct {
	// Run is what the names of the workloads match that are run.
	Run *regexp.Regexp
	// Short runs smaller sizes, JSON prints JSON instead of a table, Check fails the run when a target is missed.
	Short, JSON, Check bool
}

// Main runs the workloads, prints the report to standard output, and ends the program: with 1 if a workload could not be run
// or, with Check, a target is missed. How long each took, and what went wrong, is told on standard error.
func Main(o Options) {
	bubbletest.Main("compare", func(t *testing.T, stdout io.Writer) {
		t.Helper()
		o.compare(t, stdout, os.Stderr)
	})
}

func (o Options) compare(t *testing.T, stdout, stderr io.Writer) {
	t.Helper()
	report := &table.Report{Title: fmt.Sprintf("Velero %s beside sheetanchor, %s, %d cores, %s", velerotest.Version(), time.Now().Format(time.DateOnly), runtime.NumCPU(), runtime.Version())}
	if o.Short {
		report.Title += ", -short"
	}
	for _, w := range all() {
		if !o.Run.MatchString(w.name) {
			continue
		}
		start := time.Now()
		t.Run(w.name, func(t *testing.T) { w.measure(t, o.Short, report) })
		_, _ = fmt.Fprintf(stderr, "%-17s %6.1f s\n", w.name, time.Since(start).Seconds())
	}
	printed := report.Print
	if o.JSON {
		printed = report.JSON
	}
	if err := printed(stdout); err != nil {
		t.Error(err)
	}
	if o.Check {
		if err := report.Check(); err != nil {
			t.Error(err)
		}
	}
}
