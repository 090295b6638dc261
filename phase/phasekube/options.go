package phasekube

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sheetanchor/sheetanchor/phase"
)

// Options say where an object keeps its phase. The zero value fits resources with Velero's status fields.
type Options struct {
	// Fields are the places of the values. Defaults to VeleroFields.
	Fields Fields
	// StatusSubresource writes through the status subresource. Resources whose definition has one need it, if the fields are
	// below "status"; the others must not have it. Velero's resources have none. Every field must be below "status" then: the
	// server ignores all others.
	StatusSubresource bool
	// FieldManager names the writer in the object's managedFields. Defaults to "sheetanchor".
	FieldManager string
}

// Fields are paths inside the object: names with dots between them, a dot in a name written as `\.`, as in
// `metadata.annotations.example\.io/owner`. A field without a path is neither read nor written, except that Message then
// holds "REASON: MESSAGE" if Reason has none (see phase.JoinReason), and the phase needs a path.
type Fields struct {
	Phase     string
	Reason    string
	Message   string
	Owner     string
	Started   string // RFC 3339, to the second
	Completed string // RFC 3339, to the second
	// Finalizing is RFC 3339, to the second, and written only with phase.ApplierOptions.MaxFinalize.
	Finalizing string
}

// VeleroFields returns the fields of Velero's backups and restores: status.phase, status.failureReason for reason and
// message, status.startTimestamp and status.completionTimestamp. They have none for the owner and
// for the start of finalizing; an annotation can keep these.
func VeleroFields() Fields {
	return Fields{
		Phase: "status.phase", Message: "status.failureReason",
		Started: "status.startTimestamp", Completed: "status.completionTimestamp",
	}
}

// ConfigMapFields returns the keys of [NewConfigMap]: phase, reason, message, owner, startTimestamp, completionTimestamp and
// finalizingTimestamp in data.
func ConfigMapFields() Fields {
	return Fields{
		Phase: "data.phase", Reason: "data.reason", Message: "data.message", Owner: "data.owner",
		Started: "data.startTimestamp", Completed: "data.completionTimestamp", Finalizing: "data.finalizingTimestamp",
	}
}

// paths are Fields taken apart; nil where there is no path.
type paths struct {
	phase, reason, message, owner, started, completed, finalizing []string
}

func (f Fields) parse(statusOnly bool) (paths, error) {
	var p paths
	var faults []error
	seen := map[string]string{}
	for _, field := range []struct {
		name, path string
		to         *[]string
	}{
		{"Phase", f.Phase, &p.phase},
		{"Reason", f.Reason, &p.reason},
		{"Message", f.Message, &p.message},
		{"Owner", f.Owner, &p.owner},
		{"Started", f.Started, &p.started},
		{"Completed", f.Completed, &p.completed},
		{"Finalizing", f.Finalizing, &p.finalizing},
	} {
		if field.path == "" {
			if field.name == "Phase" {
				faults = append(faults, fmt.Errorf("%w option Fields.Phase: it is empty", phase.ErrInvalid))
			}
			continue
		}
		names, err := split(field.path)
		if err == nil && statusOnly && names[0] != "status" {
			err = errors.New("the status subresource does not write it")
		}
		if err == nil {
			err = clash(seen, field.name, names)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%w option Fields.%s %q: %w", phase.ErrInvalid, field.name, field.path, err))
		}
		*field.to = names
	}
	return p, errors.Join(faults...)
}

// split takes a path apart at its dots.
func split(path string) ([]string, error) {
	const escaped = "\x00"
	names := strings.Split(strings.ReplaceAll(path, `\.`, escaped), ".")
	for i, name := range names {
		if name == "" {
			return nil, errors.New("a name is empty")
		}
		names[i] = strings.ReplaceAll(name, escaped, ".")
	}
	if top := names[0]; top == "apiVersion" || top == "kind" ||
		top == "metadata" && (len(names) != 3 || names[1] != "annotations" && names[1] != "labels") {
		return nil, errors.New("no value can be kept there")
	}
	return names, nil
}

// clash refuses two values at one place, and one inside the other.
func clash(seen map[string]string, name string, names []string) error {
	whole := strings.Join(names, "\x00") + "\x00"
	for path, other := range seen {
		if strings.HasPrefix(path, whole) || strings.HasPrefix(whole, path) {
			return fmt.Errorf("it is the place of %s too", other)
		}
	}
	seen[whole] = name
	return nil
}
