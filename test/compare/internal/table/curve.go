package table

import (
	"fmt"
	"math"
	"strings"
)

// Curve is a figure at several sizes, of both sides.
type Curve struct {
	Workload string  `json:"workload"`
	What     string  `json:"what"`
	Points   []Point `json:"points"`
}

// Point is one size of a curve. A nil figure was not measured.
type Point struct {
	N      int     `json:"n"`
	Velero *Figure `json:"velero,omitempty"`
	Ours   *Figure `json:"sheetanchor,omitempty"`
}

const chartWidth = 40

// chart is the curve as a text chart: a bar for each point and side, on a logarithmic axis.
func (c Curve) chart() string {
	low, high := math.Inf(1), math.Inf(-1)
	each := func(f *Figure) {
		if f != nil && f.Value > 0 {
			low, high = min(low, math.Log10(f.Value)), max(high, math.Log10(f.Value))
		}
	}
	for _, p := range c.Points {
		each(p.Velero)
		each(p.Ours)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s (bars on a logarithmic scale)\n", c.Workload, c.What)
	for _, p := range c.Points {
		for _, side := range []struct {
			name string
			f    *Figure
		}{{"Velero", p.Velero}, {"sheetanchor", p.Ours}} {
			if side.f == nil {
				continue
			}
			fmt.Fprintf(&b, "  %9s %-11s %s%s %s\n", grouped(fmt.Sprint(p.N)), side.name, strings.Repeat("█", bar(side.f.Value, low, high)), "▏", side.f)
		}
	}
	return b.String()
}

func bar(value, low, high float64) int {
	if value <= 0 {
		return 0
	}
	if high <= low {
		return chartWidth
	}
	return 1 + int(math.Round((math.Log10(value)-low)/(high-low)*(chartWidth-1)))
}
