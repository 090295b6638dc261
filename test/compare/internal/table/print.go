package table

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Print writes the report for people.
func (r *Report) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", r.Title)
	if len(r.Rows) > 0 {
		lines := [][]string{{"workload", "figure", "Velero", "sheetanchor", "ratio", "target", "met"}}
		for _, row := range r.Rows {
			lines = append(lines, row.cells())
		}
		columns(&b, lines)
	}
	if len(r.Outcomes) > 0 {
		lines := [][]string{{"scenario", "Velero", "how", "Velero ends with", "sheetanchor ends with", "kept"}}
		for _, o := range r.Outcomes {
			lines = append(lines, []string{o.ID + " " + o.Scenario, o.Version, o.How, o.Velero, o.Ours, yes(o.Kept)})
		}
		columns(&b, lines)
	}
	for _, c := range r.Curves {
		b.WriteString(c.chart() + "\n")
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "%s: %s\n", n.Workload, n.Text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r Row) cells() []string {
	ratio := "–"
	if v, ok := r.Ratio(); ok {
		ratio = ratioText(v)
	}
	met := ""
	if r.Target.Kind != None {
		met = yes(r.Met())
	}
	return []string{r.Workload, r.What, r.Velero.String(), r.Ours.String(), ratio, r.text(), met}
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "NO"
}

// columns writes lines as a Markdown table whose columns are aligned, and an empty line.
func columns(b *strings.Builder, lines [][]string) {
	width := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	write := func(line []string, fill string) {
		for i, cell := range line {
			fmt.Fprintf(b, "| %s%s ", cell, strings.Repeat(fill, width[i]-utf8.RuneCountInString(cell)))
		}
		b.WriteString("|\n")
	}
	write(lines[0], " ")
	write(make([]string, len(width)), "-")
	for _, line := range lines[1:] {
		write(line, " ")
	}
	b.WriteString("\n")
}

// JSON writes the report as one JSON document. Each row has its ratio and whether its target is met beside the figures.
func (r *Report) JSON(w io.Writer) error {
	type judged struct {
		Row
		Ratio *float64 `json:"ratio,omitempty"`
		Met   bool     `json:"met"`
	}
	rows := make([]judged, 0, len(r.Rows))
	for _, row := range r.Rows {
		j := judged{Row: row, Met: row.Met()}
		if v, ok := row.Ratio(); ok {
			j.Ratio = &v
		}
		rows = append(rows, j)
	}
	type plain Report
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(struct {
		plain
		Rows []judged `json:"rows"`
	}{plain(*r), rows})
}
