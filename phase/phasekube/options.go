package phasekube

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

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
	// Entered is when the work came into its phase, Changed when it was last changed, in the same phase too: RFC 3339, to the
	// second. Deadlines of phases count from them, where there is no record.
	Entered string
	Changed string
	// Conditions is a list of metav1.Condition, such as status.conditions, in which phase.Change.Conditions keeps its own,
	// written together with the phase; entries of other types stay as they are. Their observedGeneration is written with
	// Options.StatusSubresource only: without it every write of a status is a new generation. It is not read back.
	Conditions string
}

// VeleroFields returns the fields of Velero's backups and restores: status.phase, status.failureReason for reason and
// message, status.startTimestamp and status.completionTimestamp. They have none for the
// owner, the start of finalizing, the times of the phase and conditions; annotations can keep all but conditions.
func VeleroFields() Fields {
	return Fields{
		Phase: "status.phase", Message: "status.failureReason",
		Started: "status.startTimestamp", Completed: "status.completionTimestamp",
	}
}

// ConfigMapFields returns the keys of [NewConfigMap]: phase, reason, message, owner, startTimestamp, completionTimestamp,
// finalizingTimestamp, enteredTimestamp and changedTimestamp in data.
func ConfigMapFields() Fields {
	return Fields{
		Phase: "data.phase", Reason: "data.reason", Message: "data.message", Owner: "data.owner",
		Started: "data.startTimestamp", Completed: "data.completionTimestamp", Finalizing: "data.finalizingTimestamp",
		Entered: "data.enteredTimestamp", Changed: "data.changedTimestamp",
	}
}

// conditionsField is the name of Fields.Conditions.
const conditionsField = "Conditions"

// paths are Fields taken apart; nil where there is no path.
type paths struct {
	phase, reason, message, owner, started, completed, finalizing, entered, changed, conditions []string
}

// field is one of Fields that has a path.
type field struct {
	name  string
	path  string
	names []string
}

// parse takes the paths apart. The fields are returned in the order of Fields.
func (f Fields) parse(gvr schema.GroupVersionResource, statusOnly bool) (paths, []field, error) {
	var p paths
	var used []field
	var faults []error
	seen := map[string]string{}
	for _, at := range []struct {
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
		{"Entered", f.Entered, &p.entered},
		{"Changed", f.Changed, &p.changed},
		{conditionsField, f.Conditions, &p.conditions},
	} {
		if at.path == "" {
			if at.name == "Phase" {
				faults = append(faults, fmt.Errorf("%w option Fields.Phase: it is empty", phase.ErrInvalid))
			}
			continue
		}
		names, err := split(at.path)
		if err == nil {
			err = errors.Join(fits(at.name, names, gvr, statusOnly), clash(seen, at.name, names))
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%w option Fields.%s %q: %w", phase.ErrInvalid, at.name, at.path, err))
		}
		*at.to = names
		used = append(used, field{name: at.name, path: at.path, names: names})
	}
	return p, used, errors.Join(faults...)
}

// configMapKey is what the server takes for a key of a ConfigMap's data.
var configMapKey = regexp.MustCompile(`^[-._a-zA-Z0-9]{1,253}$`)

// fits says whether the field can be kept at the place.
func fits(name string, names []string, gvr schema.GroupVersionResource, statusOnly bool) error {
	top := names[0]
	configMap := gvr.Group == "" && gvr.Resource == "configmaps"
	switch {
	case statusOnly && top != "status":
		return errors.New("the status subresource does not write it")
	case top == "metadata" && name == conditionsField:
		return errors.New("a list cannot be kept there")
	case top == "metadata" && names[1] == "labels" && name != "Phase" && name != "Reason" && name != "Owner":
		return errors.New("a label cannot hold times and free text")
	case configMap && name == conditionsField:
		return errors.New("a ConfigMap holds texts only")
	case configMap && top != "metadata" && (len(names) != 2 || top != "data" || !configMapKey.MatchString(names[1])):
		return errors.New("a ConfigMap has only data.KEY, and labels and annotations")
	default:
		return nil
	}
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
