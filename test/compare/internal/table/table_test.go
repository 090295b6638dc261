package table_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sheetanchor/sheetanchor/test/compare/internal/table"
)

var update = flag.Bool("update", false, "write the golden files")

// sample has every kind of figure, target and outcome.
func sample() *table.Report {
	bound := table.Time(2 * time.Second)
	bound.AtLeast = true
	return &table.Report{
		Title: "Velero v1.18.3 beside sheetanchor",
		Rows: []table.Row{
			{Workload: "cut", What: "whole time", Velero: table.Time(10 * time.Minute), Ours: table.Time(11800 * time.Millisecond), Target: table.Target{Kind: table.TimesBetter, Limit: 20}},
			{Workload: "cut", What: "reads", Velero: table.Number(1108), Ours: table.Number(30), Target: table.Target{Kind: table.PartOf, Limit: 0.05}},
			{Workload: "cut", What: "failed", Velero: table.Number(0), Ours: table.Number(0), Target: table.Target{Kind: table.AtMost}},
			{Workload: "codec", What: "size", Velero: table.Size(995_618), Ours: table.Size(1_100_000), Target: table.Target{Kind: table.Within, Limit: 0.05}},
			{Workload: "hung", What: "p99", Velero: bound, Ours: table.Time(207 * time.Microsecond)},
			{Workload: "waiter", What: "heap", Ours: table.Size(4567), Target: table.Target{Kind: table.AtMost, Limit: 4 << 10}},
			{Workload: "get", What: "allocations", Velero: table.Number(50_002), Ours: table.Number(3), Target: table.Target{Kind: table.Less}},
		},
		Outcomes: []table.Outcome{
			{ID: "A", Scenario: "first", Version: "v1.18.3", How: "run", Velero: "lost", Ours: "kept", Kept: true},
			{ID: "B", Scenario: "second", Version: "v1.18.3", How: "fixed there", Velero: "kept", Ours: "lost"},
		},
		Curves: []table.Curve{{Workload: "scale", What: "time", Points: []table.Point{
			{N: 100, Velero: table.Time(5 * time.Second), Ours: table.Time(time.Second)},
			{N: 10_000, Velero: table.Time(500 * time.Second), Ours: table.Time(time.Second)},
			{N: 100_000, Ours: table.Time(2 * time.Second)},
		}}},
		Notes: []table.Note{{Workload: "cut", Text: "virtual time"}},
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; got:\n%s", name, got)
	}
}

func TestPrint(t *testing.T) {
	t.Parallel()
	var text, raw bytes.Buffer
	if err := errors.Join(sample().Print(&text), sample().JSON(&raw)); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.txt", text.Bytes())
	golden(t, "report.json", raw.Bytes())
	var back struct {
		Rows []struct {
			Workload string
			Ratio    *float64
			Met      *bool
		}
	}
	if err := json.Unmarshal(raw.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	for i, row := range sample().Rows {
		got := back.Rows[i]
		ratio, ok := row.Ratio()
		if got.Workload != row.Workload || got.Met == nil || *got.Met != row.Met() || (got.Ratio != nil) != ok || ok && *got.Ratio != ratio {
			t.Errorf("row %d in JSON is %+v, want ratio %v (%v) and met %v", i, got, ratio, ok, row.Met())
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	err := sample().Check()
	if !errors.Is(err, table.ErrMissed) {
		t.Fatalf("Check() = %v, want ErrMissed", err)
	}
	lines := strings.Split(err.Error(), "\n")
	for i, want := range []string{"codec, size", "waiter, heap", "scenario B"} {
		if i >= len(lines) || !strings.Contains(lines[i], want) {
			t.Errorf("line %d of %q does not name %s", i, lines, want)
		}
	}
	if len(lines) != 3 {
		t.Errorf("%d misses, want 3: %v", len(lines), err)
	}
	good := &table.Report{Rows: sample().Rows[:3], Outcomes: sample().Outcomes[:1]}
	if err := good.Check(); err != nil {
		t.Errorf("Check() of what keeps its targets = %v", err)
	}
	if err := new(table.Report).Check(); err == nil {
		t.Error("Check() of nothing succeeds")
	}
}

func TestMet(t *testing.T) {
	t.Parallel()
	one, two, zero := table.Number(1), table.Number(2), table.Number(0)
	for name, c := range map[string]struct {
		velero, ours *table.Figure
		target       table.Target
		want         bool
	}{
		"no target holds always":                     {nil, nil, table.Target{}, true},
		"twice as good is enough for 2":              {two, one, table.Target{Kind: table.TimesBetter, Limit: 2}, true},
		"twice as good is too little for 3":          {two, one, table.Target{Kind: table.TimesBetter, Limit: 3}, false},
		"nothing at all is any times better":         {two, zero, table.Target{Kind: table.TimesBetter, Limit: 100}, true},
		"nothing is not better than nothing":         {zero, zero, table.Target{Kind: table.TimesBetter, Limit: 1}, false},
		"a comparison needs Velero's figure":         {nil, one, table.Target{Kind: table.PartOf, Limit: 1}, false},
		"a bound needs ours":                         {one, nil, table.Target{Kind: table.AtMost, Limit: 1}, false},
		"a bound needs no other":                     {nil, one, table.Target{Kind: table.AtMost, Limit: 1}, true},
		"a bound may be passed":                      {nil, two, table.Target{Kind: table.AtMost, Limit: 1}, false},
		"half is a part of 0.5":                      {two, one, table.Target{Kind: table.PartOf, Limit: 0.5}, true},
		"half is not a part of 0.4":                  {two, one, table.Target{Kind: table.PartOf, Limit: 0.4}, false},
		"too small is not within":                    {two, one, table.Target{Kind: table.Within, Limit: 0.1}, false},
		"too large is not within":                    {one, two, table.Target{Kind: table.Within, Limit: 0.1}, false},
		"equal is within":                            {two, two, table.Target{Kind: table.Within}, true},
		"equal is not less":                          {two, two, table.Target{Kind: table.Less}, false},
		"less is less":                               {two, one, table.Target{Kind: table.Less}, true},
		"a kind that nobody knows is kept by nobody": {two, one, table.Target{Kind: "faster"}, false},
	} {
		if got := (table.Row{Velero: c.velero, Ours: c.ours, Target: c.target}).Met(); got != c.want {
			t.Errorf("%s: Met() = %v", name, got)
		}
	}
}

func TestFigure(t *testing.T) {
	t.Parallel()
	for want, figure := range map[string]*table.Figure{
		"–": nil, "0 s": table.Time(0), "1.50 µs": table.Time(1500), "12 ms": table.Time(12 * time.Millisecond), "11.8 s": table.Time(11800 * time.Millisecond),
		"10 min": table.Time(10 * time.Minute), "167 h": table.Time(600_000 * time.Second), "4.46 KiB": table.Size(4567), "512 B": table.Size(512),
		"1.50 MiB": table.Size(3 << 19), "50 002": table.Number(50_002), "1 234 567": table.Number(1_234_567), "0.738": table.Number(0.738), "1108": table.Number(1108),
	} {
		if got := figure.String(); got != want {
			t.Errorf("%+v prints as %q, want %q", figure, got, want)
		}
	}
}
