package program

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sheetanchor/sheetanchor/finalize"
	"github.com/sheetanchor/sheetanchor/phase"
)

// Transition is a phase change that this process made.
type Transition struct {
	From  string    `json:"from"`
	To    string    `json:"to"`
	Event string    `json:"event"`
	At    time.Time `json:"at"`
}

// Hook is one of the last steps.
type Hook struct {
	Name    string  `json:"name"`
	State   string  `json:"state"`
	Seconds float64 `json:"seconds"`
}

// Phases gives each phase change to made and says it in a line.
func Phases[P ~string](made func(Transition), line func(format string, args ...any)) phase.Hooks[P] {
	return phase.Hooks[P]{Transition: func(_ context.Context, c phase.Change[P]) {
		made(Transition{From: string(c.From), To: string(c.To), Event: string(c.Event), At: c.At})
		line("phase %s -> %s", c.From, c.To)
	}}
}

// LastSteps says each of the last steps that ended in a line.
func LastSteps(line func(format string, args ...any)) finalize.Observer {
	return finalize.Observer{Ended: func(_ context.Context, h finalize.HookReport) { line("finalize: %s %s", h.Name, h.State) }}
}

// Hooks are the last steps that this process ran. Never nil.
func Hooks(report finalize.Report) []Hook {
	all := []Hook{}
	for _, h := range report.Hooks {
		all = append(all, Hook{Name: h.Name, State: string(h.State), Seconds: h.Duration.Seconds()})
	}
	return all
}

// Results are the errors and warnings of a file of results. Never nil.
func Results(data []byte) (errs, warnings []string, err error) {
	results, err := finalize.DecodeResults(data, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("results: %w", err)
	}
	return flat(results.Errors), flat(results.Warnings), nil
}

func flat(set finalize.ResultSet) []string {
	all := append(append([]string{}, set.Velero...), set.Cluster...)
	for _, namespace := range slices.Sorted(maps.Keys(set.Namespaces)) {
		all = append(all, set.Namespaces[namespace]...)
	}
	return all
}

// WriteJSON prints the one object of -o json.
func WriteJSON(w io.Writer, result any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(result)
}

// WriteTroubles prints a line for each error and warning.
func WriteTroubles(w io.Writer, errs, warnings []string) {
	for _, e := range errs {
		fmt.Fprintln(w, "error:", e)
	}
	for _, e := range warnings {
		fmt.Fprintln(w, "warning:", e)
	}
}

// Stamped is a line of progress, with the time since the program began.
func Stamped(began time.Time, format string, args ...any) string {
	return fmt.Sprintf("%6.2fs  %s", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
}

// Dash is s, or a dash for nothing.
func Dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// OneLine is s with a semicolon for each line break.
func OneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' }), "; ")
}
