package phasekube

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sheetanchor/sheetanchor/phase"
)

// Severity says how much a [Finding] matters.
type Severity uint8

// How much a finding can matter.
const (
	// SeverityUnchecked: something could not be looked at, so that nothing is known about it.
	SeverityUnchecked Severity = iota
	// SeverityDegraded: phases can be written, but something is missing or may be refused at times.
	SeverityDegraded
	// SeverityFatal: writes are refused or lost.
	SeverityFatal
)

// String returns "unchecked", "degraded" or "fatal".
func (s Severity) String() string {
	switch s {
	case SeverityUnchecked:
		return "unchecked"
	case SeverityDegraded:
		return "degraded"
	case SeverityFatal:
		return "fatal"
	default:
		return fmt.Sprintf("Severity(%d)", uint8(s))
	}
}

// Problem is the kind of a [Finding], one word for programs.
type Problem string

// The problems that [Object.Preflight] can find.
const (
	// ProblemUnserved: the server does not serve the resource in this version. Fatal.
	ProblemUnserved Problem = "Unserved"
	// ProblemScope: the resource is cluster-wide and the object has a namespace, or the reverse. Fatal.
	ProblemScope Problem = "Scope"
	// ProblemSubresource: the status is a subresource and [Options].StatusSubresource is false, so that the field is dropped
	// without a word, or the reverse, so that every write is NotFound. Fatal.
	ProblemSubresource Problem = "Subresource"
	// ProblemNoField: the schema does not have the field, so that every write of it is refused. Fatal, but degraded for
	// the conditions, which [Report.Fields] leaves out.
	ProblemNoField Problem = "NoField"
	// ProblemType: the schema wants something else in the place of the text. Fatal; degraded as ProblemNoField is.
	ProblemType Problem = "Type"
	// ProblemPhases: the schema refuses phases of the machine; [Finding].Phases are these. Fatal.
	ProblemPhases Problem = "Phases"
	// ProblemRestricted: the schema refuses some values of a field that is not the phase. Degraded.
	ProblemRestricted Problem = "Restricted"
	// ProblemRequired: the schema requires a field beside ours. A write is refused until somebody else set it. Degraded.
	ProblemRequired Problem = "Required"
	// ProblemOtherVersion: another version of the resource lacks the field. Fatal in the version in which objects are stored,
	// because what it lacks is lost (unchecked if a webhook converts); else, and for the conditions, degraded, because whoever
	// writes in that version takes the field away.
	ProblemOtherVersion Problem = "OtherVersion"
	// ProblemForbidden: the object itself may not be read. Degraded, because permissions may come later.
	ProblemForbidden Problem = "Forbidden"
	// ProblemNotChecked: the definition may not be read, there is none, or it has rules that only the server can
	// evaluate. Unchecked.
	ProblemNotChecked Problem = "NotChecked"
)

// Finding is one thing that [Object.Preflight] found.
type Finding struct {
	Severity Severity
	Problem  Problem
	// Field is the name of the field in [Fields], such as "Phase"; empty if the finding is about the whole resource.
	Field string
	// Path is the field's path; empty if Field is.
	Path string
	// Version is the API version at fault; empty if the finding is about all.
	Version string
	// Phases are the phases that the schema refuses, sorted.
	Phases []string
	// Detail is a text for people, lower case.
	Detail string
}

// String returns the finding as one line.
func (f Finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %s", f.Severity, f.Problem)
	if f.Field != "" {
		fmt.Fprintf(&b, " Fields.%s %q", f.Field, f.Path)
	}
	if f.Version != "" {
		fmt.Fprintf(&b, " in %s", f.Version)
	}
	if f.Detail != "" {
		b.WriteString(": " + f.Detail)
	}
	if len(f.Phases) > 0 {
		b.WriteString(": " + strings.Join(f.Phases, ", "))
	}
	return b.String()
}

// Report is what [Object.Preflight] found. Its zero value has nothing to say.
type Report struct {
	// Resource is what was looked at, as in "backups.velero.io/v1".
	Resource string
	// Findings are sorted: the most severe first, then by problem, field and version. Empty means that all is well.
	Findings []Finding

	fields Fields
}

// Fields returns the fields of the object, without the conditions if the resource lacks them: give them to [New], and
// conditions are off instead of refused.
func (r Report) Fields() Fields {
	if r.ConditionsOff() {
		r.fields.Conditions = ""
	}
	return r.fields
}

// ConditionsOff says whether conditions were wanted and the resource lacks them.
func (r Report) ConditionsOff() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool {
		return f.Field == conditionsField && f.Severity == SeverityDegraded && (f.Problem == ProblemNoField || f.Problem == ProblemType)
	})
}

// Err returns nil if nothing is fatal, else a [*PreflightError].
func (r Report) Err() error {
	var fatal []Finding
	for _, f := range r.Findings {
		if f.Severity == SeverityFatal {
			fatal = append(fatal, f)
		}
	}
	if len(fatal) == 0 {
		return nil
	}
	return &PreflightError{Resource: r.Resource, Findings: fatal}
}

// String returns one line for each finding, and one line if there is none.
func (r Report) String() string {
	if len(r.Findings) == 0 {
		return r.Resource + ": no findings"
	}
	lines := make([]string, len(r.Findings))
	for i, f := range r.Findings {
		lines[i] = r.Resource + ": " + f.String()
	}
	return strings.Join(lines, "\n")
}

func (r *Report) sort() {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(-cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Problem, b.Problem),
			cmp.Compare(a.Field, b.Field), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Detail, b.Detail))
	})
}

// PreflightError has the fatal findings of a [Report]. It is phase.ErrMissingAPI if the resource is not served, else
// phase.ErrInvalid.
type PreflightError struct {
	Resource string
	Findings []Finding
}

// Error returns the findings.
func (e *PreflightError) Error() string {
	texts := make([]string, len(e.Findings))
	for i, f := range e.Findings {
		texts[i] = f.String()
	}
	return fmt.Sprintf("preflight of %s: %s", e.Resource, strings.Join(texts, "; "))
}

// Unwrap returns the category.
func (e *PreflightError) Unwrap() error {
	if slices.ContainsFunc(e.Findings, func(f Finding) bool { return f.Problem == ProblemUnserved }) {
		return phase.ErrMissingAPI
	}
	return phase.ErrInvalid
}
