package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/sheetanchor/sheetanchor/examples/internal/program"
)

// result is what the program prints at the end; with -o json it is the one object on standard output.
type result struct {
	Name        string               `json:"name"`
	Namespace   string               `json:"namespace"`
	Phase       string               `json:"phase"`
	Reason      string               `json:"reason,omitempty"`
	Message     string               `json:"message,omitempty"`
	Transitions []program.Transition `json:"transitions"`
	Batches     []batch              `json:"batches"`
	Snapshots   []snapshot           `json:"snapshots"`
	Skipped     []skipped            `json:"skipped"`
	Operations  operationCount       `json:"operations"`
	Hooks       []program.Hook       `json:"hooks"`
	Errors      []string             `json:"errors"`
	Warnings    []string             `json:"warnings"`
	Requests    map[string]int       `json:"requests"`
	Seconds     float64              `json:"seconds"`
}

// batch is what this process froze and cut together.
type batch struct {
	Pods    []string `json:"pods"`
	Volumes []string `json:"volumes"`
	Seconds float64  `json:"seconds"`
	// FrozenSeconds is, per hooked pod, the time from the return of its last pre hook to the start of its post hook.
	FrozenSeconds map[string]float64 `json:"frozenSeconds"`
}

// snapshot is the record of one volume that was to be snapshotted.
type snapshot struct {
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	PVC        string `json:"pvc"`
	Handle     string `json:"handle"`
	ReadyToUse bool   `json:"readyToUse"`
	Error      string `json:"error,omitempty"`
}

type skipped struct {
	PVC    string `json:"pvc"`
	Reason string `json:"reason"`
}

type operationCount struct {
	Total     int `json:"total"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
	Canceled  int `json:"canceled"`
}

// writeText prints a table with a line per volume and the phase at the end.
func (r result) writeText(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "\nVOLUME\tRESULT\tHANDLE\tNOTE")
	for _, s := range r.Snapshots {
		state := "failed"
		if s.ReadyToUse {
			state = "ready"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", s.PVC, state, program.Dash(s.Handle), short(s.Error))
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(table, "%s\tskipped\t-\t%s\n", s.PVC, s.Reason)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	program.WriteTroubles(w, r.Errors, r.Warnings)
	if len(r.Transitions) == 0 {
		_, err := fmt.Fprintf(w, "\n%s already, by an earlier run: nothing was done\n", r.Phase)
		return err
	}
	reason := ""
	if r.Message != "" {
		reason = " (" + r.Message + ")"
	}
	_, err := fmt.Fprintf(w, "\n%s%s after %.1f s: %d operations, %d completed, %d failed, %d canceled\n", r.Phase, reason,
		r.Seconds, r.Operations.Total, r.Operations.Completed, r.Operations.Failed, r.Operations.Canceled)
	return err
}

// short keeps a table readable; the whole text is below it.
func short(s string) string {
	const limit = 72
	s = program.OneLine(s)
	if r := []rune(s); len(r) > limit {
		return string(r[:limit]) + "…"
	}
	return s
}
