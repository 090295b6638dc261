package table

import (
	"errors"
	"fmt"
)

// Row is one figure of a workload, of both sides.
type Row struct {
	// Workload is the name of the workload, What says what was measured.
	Workload string `json:"workload"`
	What     string `json:"what"`
	// Velero and Ours are the figures; Velero is nil where it has nothing of the kind.
	Velero *Figure `json:"velero,omitempty"`
	Ours   *Figure `json:"sheetanchor"`
	// Target is what has to hold. The zero target holds always.
	Target Target `json:"target,omitzero"`
}

// Ratio is Velero's figure over ours; false without both, or if ours is zero.
func (r Row) Ratio() (float64, bool) {
	if r.Velero == nil || r.Ours == nil || r.Ours.Value == 0 {
		return 0, false
	}
	return r.Velero.Value / r.Ours.Value, true
}

// Kind is what a target compares.
type Kind string

// The kinds of targets.
const (
	// None holds always.
	None Kind = ""
	// TimesBetter: Velero's figure is at least Limit times ours. Ours may be zero if Velero's is not.
	TimesBetter Kind = "timesBetter"
	// PartOf: ours is at most Limit times Velero's.
	PartOf Kind = "partOf"
	// Within: ours differs from Velero's by at most the part Limit of Velero's.
	Within Kind = "within"
	// AtMost: ours is at most Limit, in the unit of the figure.
	AtMost Kind = "atMost"
	// Less: ours is less than Velero's.
	Less Kind = "less"
)

// Target is what a row's figures have to keep.
type Target struct {
	Kind  Kind    `json:"kind,omitempty"`
	Limit float64 `json:"limit,omitempty"`
}

// Met reports whether the row keeps its target. A target that compares with a figure that is not there is not met.
func (r Row) Met() bool {
	t := r.Target
	if t.Kind == None {
		return true
	}
	if r.Ours == nil || (t.Kind != AtMost && r.Velero == nil) {
		return false
	}
	ours := r.Ours.Value
	switch t.Kind {
	case AtMost:
		return ours <= t.Limit
	case TimesBetter:
		return r.Velero.Value > 0 && r.Velero.Value >= t.Limit*ours
	case PartOf:
		return ours <= t.Limit*r.Velero.Value
	case Within:
		difference := ours - r.Velero.Value
		return max(difference, -difference) <= t.Limit*r.Velero.Value
	case Less:
		return ours < r.Velero.Value
	case None:
	}
	return false
}

// text is the target for people.
func (r Row) text() string {
	t := r.Target
	switch t.Kind {
	case TimesBetter:
		return "≥ " + ratioText(t.Limit)
	case PartOf:
		return fmt.Sprintf("≤ %s of Velero's", percent(t.Limit))
	case Within:
		return "within " + percent(t.Limit)
	case AtMost:
		unit := Count
		if r.Ours != nil {
			unit = r.Ours.Unit
		}
		return "≤ " + (&Figure{Value: t.Limit, Unit: unit}).text()
	case Less:
		return "less"
	case None:
	}
	return ""
}

func percent(part float64) string { return digits(part*100) + " %" }

// Outcome is what one scenario of trouble ends with on both sides.
type Outcome struct {
	// ID is the scenario's letter, Scenario says what is done.
	ID       string `json:"id"`
	Scenario string `json:"scenario"`
	// Version is Velero's, and How is "run", "read in source" or "fixed there".
	Version string `json:"veleroVersion"`
	How     string `json:"how"`
	// Velero and Ours say what each ended with.
	Velero string `json:"velero"`
	Ours   string `json:"sheetanchor"`
	// Kept reports whether ours kept its promise.
	Kept bool `json:"kept"`
}

// Report is a whole run.
type Report struct {
	// Title says what was compared, where and when, Notes how.
	Title    string    `json:"title"`
	Rows     []Row     `json:"rows"`
	Outcomes []Outcome `json:"outcomes,omitempty"`
	Curves   []Curve   `json:"curves,omitempty"`
	Notes    []Note    `json:"notes,omitempty"`
}

// Note is what a reader has to know of a workload: how it was run, and Velero's defaults.
type Note struct {
	Workload string `json:"workload"`
	Text     string `json:"text"`
}

// ErrMissed says that a target was missed.
var ErrMissed = errors.New("target missed")

// Check returns an error for each row that misses its target and each outcome that breaks its promise, each [ErrMissed], or
// nil. A report without rows and outcomes is an error too, so that a pattern that fits nothing is no success.
func (r *Report) Check() error {
	if len(r.Rows)+len(r.Outcomes) == 0 {
		return errors.New("nothing was measured")
	}
	var errs []error
	for _, row := range r.Rows {
		if !row.Met() {
			errs = append(errs, fmt.Errorf("%w: %s, %s: %s beside %s, target %s", ErrMissed, row.Workload, row.What, row.Ours, row.Velero, row.text()))
		}
	}
	for _, o := range r.Outcomes {
		if !o.Kept {
			errs = append(errs, fmt.Errorf("%w: scenario %s ended with: %s", ErrMissed, o.ID, o.Ours))
		}
	}
	return errors.Join(errs...)
}
