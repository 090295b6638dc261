package csisnapshot

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrNoClass says that no snapshot class could be chosen for a volume: there is none, or more than one, or the one asked
// for does not exist or is another driver's. The error is a [*ClassError].
var ErrNoClass = errors.New("no VolumeSnapshotClass")

// ClassError says why no class could be chosen. It is [ErrNoClass].
type ClassError struct {
	// Driver is the CSI driver of the volume.
	Driver string
	// Wanted is the class asked for by an annotation. Empty when none was.
	Wanted string
	// Candidates are the names of the driver's classes that could have been meant, sorted.
	Candidates []string
	// Reason is for people.
	Reason string
}

// Error says what is wrong and which classes there are.
func (e *ClassError) Error() string {
	if len(e.Candidates) == 0 {
		return fmt.Sprintf("%v for driver %s: %s", ErrNoClass, e.Driver, e.Reason)
	}
	return fmt.Sprintf("%v for driver %s: %s; candidates: %s", ErrNoClass, e.Driver, e.Reason, strings.Join(e.Candidates, ", "))
}

// Is reports whether the target is [ErrNoClass].
func (e *ClassError) Is(target error) bool { return target == ErrNoClass }

// SelectClass chooses the name of the snapshot class for a volume of the driver. It is pure. The first of these rules
// that says anything decides:
//
//  1. the claim's annotation [Names.ClassKey] names a class;
//  2. the backup's annotation [Names.ClassKey] with "_" and the driver behind it names a class;
//  3. one class of the driver has the label [Names.ClassKey];
//  4. one class of the driver is annotated as default;
//  5. the driver has only one class.
//
// A named class that does not exist or belongs to another driver, and a rule that fits several classes, are a
// [*ClassError] with the candidates; no later rule is tried.
func SelectClass(classes []Class, driver string, claim, backup map[string]string, names Names) (string, error) {
	key := names.ClassKey()
	if name := claim[key]; name != "" {
		return namedClass(classes, driver, name, "claim annotation "+key)
	}
	perDriver := key + "_" + driver
	if name := backup[perDriver]; name != "" {
		return namedClass(classes, driver, name, "backup annotation "+perDriver)
	}
	var own, labelled, preset []string
	for _, c := range classes {
		if c.Driver != driver {
			continue
		}
		own = append(own, c.Name)
		if v, ok := c.Labels[key]; ok && v != "false" {
			labelled = append(labelled, c.Name)
		}
		if c.IsDefault() {
			preset = append(preset, c.Name)
		}
	}
	rules := []struct {
		names []string
		many  string
	}{
		{labelled, "several classes have the label " + key},
		{preset, "several classes are annotated as default"},
		{own, "several classes and none is labelled or default"},
	}
	for _, r := range rules {
		switch len(r.names) {
		case 0:
		case 1:
			return r.names[0], nil
		default:
			return "", &ClassError{Driver: driver, Candidates: slices.Sorted(slices.Values(r.names)), Reason: r.many}
		}
	}
	return "", &ClassError{Driver: driver, Reason: "the driver has none"}
}

// namedClass checks a class that was asked for by name.
func namedClass(classes []Class, driver, name, by string) (string, error) {
	var own []string
	fault := &ClassError{Driver: driver, Wanted: name, Reason: fmt.Sprintf("%s names class %q, which does not exist", by, name)}
	for _, c := range classes {
		switch {
		case c.Driver == driver && c.Name == name:
			return name, nil
		case c.Driver == driver:
			own = append(own, c.Name)
		case c.Name == name:
			fault.Reason = fmt.Sprintf("%s names class %q of another driver (%s)", by, name, c.Driver)
		}
	}
	fault.Candidates = slices.Sorted(slices.Values(own))
	return "", fault
}

// faultOf makes a fault of a volume, with the candidates the error knows.
func faultOf(v Volume, err error) Fault {
	f := Fault{Namespace: v.Namespace, Claim: v.Claim, ClaimUID: v.ClaimUID, PV: v.PV, Driver: v.Driver, Err: err}
	if e, ok := errors.AsType[*ClassError](err); ok {
		f.Candidates = e.Candidates
	}
	return f
}
