package phasekube

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sheetanchor/sheetanchor/phase"
)

// subject is what shall be written.
type subject struct {
	version    string
	namespaced bool
	status     bool // through the status subresource
	fields     []field
	phases     []string // what is written as phase, sorted
}

// judge compares a definition with what shall be written. It is pure.
func judge(d definition, s subject) []Finding {
	i := slices.IndexFunc(d.versions, func(v version) bool { return v.name == s.version && v.served })
	if i < 0 {
		return []Finding{{
			Severity: SeverityFatal, Problem: ProblemUnserved, Version: s.version,
			Detail: "the definition serves " + strings.Join(d.served(), ", "),
		}}
	}
	var found []Finding
	if d.unready != "" {
		found = append(found, Finding{Severity: SeverityFatal, Problem: ProblemUnserved, Detail: d.unready})
	}
	if d.namespaced != s.namespaced {
		detail := "the resource is cluster-wide and the object has a namespace"
		if d.namespaced {
			detail = "the resource is in namespaces and the object has none"
		}
		found = append(found, Finding{Severity: SeverityFatal, Problem: ProblemScope, Detail: detail})
	}
	found = append(found, judgeSubresource(d.versions[i], s)...)
	found = append(found, d.judgeVersion(d.versions[i], s)...)
	for j, other := range d.versions {
		if j != i && (other.served || other.storage) {
			found = append(found, d.judgeOther(other, s)...)
		}
	}
	return found
}

func (d definition) served() []string {
	names := []string{}
	for _, v := range d.versions {
		if v.served {
			names = append(names, v.name)
		}
	}
	if len(names) == 0 {
		return []string{"no version"}
	}
	return names
}

func judgeSubresource(v version, s subject) []Finding {
	var found []Finding
	if s.status && !v.status {
		return []Finding{{
			Severity: SeverityFatal, Problem: ProblemSubresource, Version: v.name,
			Detail: "the status is no subresource, and Options.StatusSubresource is set",
		}}
	}
	for _, f := range s.fields {
		if v.status && !s.status && f.names[0] == "status" {
			found = append(found, Finding{
				Severity: SeverityFatal, Problem: ProblemSubresource, Field: f.name, Path: f.path, Version: v.name,
				Detail: "the status is a subresource, and Options.StatusSubresource is not set",
			})
		}
	}
	return found
}

func (d definition) judgeVersion(v version, s subject) []Finding {
	if v.root == nil {
		if d.keepUnknown {
			return nil
		}
		return []Finding{{Severity: SeverityUnchecked, Problem: ProblemNotChecked, Version: v.name, Detail: "it has no schema"}}
	}
	var found []Finding
	asked := map[string]bool{} // places whose requirements and rules are reported already
	for _, f := range s.fields {
		places, fate := v.root.walk(f.names)
		add := func(severity Severity, problem Problem, format string, args ...any) {
			found = append(found, Finding{
				Severity: severity, Problem: problem, Field: f.name, Path: f.path, Version: v.name, Detail: fmt.Sprintf(format, args...),
			})
		}
		lacking := SeverityFatal
		if f.name == conditionsField {
			lacking = SeverityDegraded
		}
		switch {
		case fate == fateFree, fate == fateDropped && d.keepUnknown:
		case fate == fateDropped:
			add(lacking, ProblemNoField, "%s is not in the schema", strings.Join(f.names[:len(places)], "."))
			continue
		default:
			leaf := places[len(places)-1]
			for _, fault := range leafFaults(f, leaf) {
				add(lacking, ProblemType, "%s", fault)
			}
			if f.name == "Phase" {
				if refused := leaf.refused(s.phases); len(refused) > 0 {
					found = append(found, Finding{
						Severity: SeverityFatal, Problem: ProblemPhases, Field: f.name, Path: f.path, Version: v.name, Phases: refused,
						Detail: "the schema refuses phases",
					})
				}
			} else if limit := leaf.restriction(isTime(f.name)); limit != "" {
				add(SeverityDegraded, ProblemRestricted, "the schema has %s", limit)
			}
		}
		around(places, f, s, asked, add)
	}
	return found
}

// around reports what the places on the way to a field ask for.
func around(places []place, f field, s subject, asked map[string]bool, add func(Severity, Problem, string, ...any)) {
	for depth, at := range places {
		where := strings.Join(f.names[:min(depth, len(f.names))], "\x00")
		if asked[where] {
			continue
		}
		asked[where] = true
		name := "the resource"
		if depth > 0 {
			name = strings.Join(f.names[:depth], ".")
		}
		if rules := at.rules(depth < len(f.names)); rules != "" {
			add(SeverityUnchecked, ProblemNotChecked, "%s has %s", name, rules)
		}
		if depth == 0 || depth >= len(f.names) {
			continue // the object itself exists
		}
		ours := s.fields[0].names // the phase, which every write has
		for _, required := range at.requires() {
			if depth < len(ours) && slices.Equal(ours[:depth], f.names[:depth]) && ours[depth] == required {
				continue
			}
			add(SeverityDegraded, ProblemRequired, "%s requires %q", name, required)
		}
	}
}

// leafFaults says why a field's values cannot stand at its place.
func leafFaults(f field, at place) []string {
	if f.name == conditionsField {
		return listFaults(at)
	}
	if !at.takesText() {
		return []string{fmt.Sprintf("the schema wants type %q", at.text("type"))}
	}
	if format := at.text("format"); isTime(f.name) && format != "" && format != "date-time" {
		return []string{fmt.Sprintf("the schema wants format %q", format)}
	}
	return nil
}

func isTime(field string) bool {
	return slices.Contains([]string{"Started", "Completed", "Finalizing", "Entered", "Changed"}, field)
}

// conditionValues are what conditions are written with, beside texts.
var conditionValues = map[string][]string{
	"type":   {phase.ConditionFinished, phase.ConditionReady, phase.ConditionReconciling, phase.ConditionStalled},
	"status": {"False", "True"},
}

// listFaults says why a place holds no list of conditions.
func listFaults(at place) []string {
	items, ok := at["items"].(map[string]any)
	if at.text("type") != "array" || !ok {
		return []string{fmt.Sprintf("the schema wants type %q, not a list", at.text("type"))}
	}
	written := []string{"type", "status", "reason", "message", "lastTransitionTime", "observedGeneration"}
	var faults []string
	for _, name := range written {
		of, ok := place(items).child(name)
		if !ok && !place(items).free() {
			faults = append(faults, fmt.Sprintf("a condition has no %q", name))
		}
		if refused := of.refused(conditionValues[name]); len(refused) > 0 {
			faults = append(faults, fmt.Sprintf("a condition's %q cannot be %s", name, strings.Join(refused, ", ")))
		}
	}
	if most, ok := at.length("maxItems"); ok && most < int64(len(conditionValues["type"])) {
		faults = append(faults, fmt.Sprintf("it has room for %d conditions", most))
	}
	for _, name := range place(items).requires() {
		if !slices.Contains(written, name) {
			faults = append(faults, fmt.Sprintf("a condition requires %q", name))
		}
	}
	return faults
}

// judgeOther looks at a version through which we do not write. Objects that are stored in it, without a webhook that could
// put the values elsewhere, lose what it lacks.
func (d definition) judgeOther(v version, s subject) []Finding {
	severity, detail := SeverityDegraded, "whoever writes in this version takes it away: "
	switch {
	case v.storage && d.webhook:
		severity, detail = SeverityUnchecked, "it is the stored version, behind a webhook: "
	case v.storage:
		severity, detail = SeverityFatal, "it is the stored version: "
	}
	var found []Finding
	for _, f := range s.fields {
		if v.has(f, d.keepUnknown) {
			continue
		}
		one := Finding{
			Severity: severity, Problem: ProblemOtherVersion, Field: f.name, Path: f.path, Version: v.name,
			Detail: detail + "its schema lacks the field",
		}
		if f.name == conditionsField && severity == SeverityFatal {
			one.Severity = SeverityDegraded
		}
		found = append(found, one)
	}
	return found
}

func (v version) has(f field, keepUnknown bool) bool {
	if keepUnknown || v.root == nil {
		return true
	}
	_, fate := v.root.walk(f.names)
	return fate != fateDropped
}
