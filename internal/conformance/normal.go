package conformance

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// aspect is one thing about an object that changes by itself: the columns drift, each aspect has its order.
type aspect struct {
	name string
	of   func(object *unstructured.Unstructured) string
	// polled says that a value may come again any number of times.
	polled bool
}

const prefix = "snapshot.storage.kubernetes.io/"

var aspects = []aspect{
	{name: "life", of: life},
	{name: "finalizers", of: finalizers},
	{name: "being-created", of: annotation(prefix + "volumesnapshot-being-created"), polled: true},
	{name: "being-deleted", of: annotation(prefix + "volumesnapshot-being-deleted")},
	{name: "group handle", of: presence("groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle")},
	{name: "owner", of: owner},
	{name: "class", of: func(o *unstructured.Unstructured) string {
		return presenceOf(text(o, "spec", "volumeSnapshotClassName"))
	}},
	{name: "reserved", of: func(o *unstructured.Unstructured) string {
		return presenceOf(text(o, "spec", "volumeSnapshotRef", "uid"))
	}},
	{name: "status", of: status},
}

var wanted = map[string][]string{
	"volumesnapshots":             {"life", "finalizers", "owner", "class", "status"},
	"volumesnapshotcontents":      {"life", "finalizers", "being-created", "being-deleted", "group handle", "reserved", "status"},
	"persistentvolumeclaims":      {"life", "finalizers"},
	"volumegroupsnapshots":        {"life", "finalizers", "status"},
	"volumegroupsnapshotcontents": {"life", "finalizers", "status"},
}

// describe writes what a column's object went through.
func describe(name string, c *column) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", name)
	for _, a := range aspects {
		if !slices.Contains(wanted[c.resource], a.name) {
			continue
		}
		var values []string
		for _, version := range c.versions {
			switch {
			case version != nil:
				values = append(values, a.of(version))
			case a.name == "life":
				values = append(values, "gone")
			}
		}
		if a.name == "status" && c.resource == "volumesnapshots" {
			values = settledErrors(values)
		}
		values = slices.Compact(values)
		if a.polled {
			values = collapse(values)
		}
		if len(values) == 1 && values[0] == none {
			continue
		}
		if a.name == "status" {
			fmt.Fprintf(&b, "  status\n    %s\n", strings.Join(values, "\n    "))
		} else {
			fmt.Fprintf(&b, "  %s: %s\n", a.name, strings.Join(values, ", "))
		}
	}
	return b.String()
}

// settledErrors leaves out a state that differs from the next one in the error's text alone: snapshots follow their contents up to a
// second or so later, and may miss one that is over by then.
func settledErrors(values []string) []string {
	values = slices.Compact(values)
	var kept []string
	for i, value := range values {
		if i+1 < len(values) && strings.Contains(value, "error=") && strings.Contains(values[i+1], "error=") && withoutText(value) == withoutText(values[i+1]) {
			continue
		}
		kept = append(kept, value)
	}
	return kept
}

// withoutText is a status without its error's text, which ends before the next flag.
func withoutText(status string) string {
	before, rest, _ := strings.Cut(status, "error=")
	return before + rest[max(strings.LastIndex(rest, " readyToUse="), 0):]
}

const none = "none"

// collapse leaves out repetitions: the first value, the second, and the last.
func collapse(values []string) []string {
	if len(values) < 3 {
		return values
	}
	return slices.Compact([]string{values[0], values[1], values[len(values)-1]})
}

func life(object *unstructured.Unstructured) string {
	if object.GetDeletionTimestamp() != nil {
		return "deleting"
	}
	return "there"
}

// finalizers are those of the snapshot stack; other controllers' are not looked at.
func finalizers(object *unstructured.Unstructured) string {
	var words []string
	for _, f := range object.GetFinalizers() {
		switch domain, name, _ := strings.Cut(f, "/"); domain {
		case "snapshot.storage.kubernetes.io", "groupsnapshot.storage.kubernetes.io":
			words = append(words, name)
		case "provisioner.storage.kubernetes.io":
			words = append(words, "provisioner:"+name)
		}
	}
	return joined(words)
}

func joined(words []string) string {
	if len(words) == 0 {
		return none
	}
	slices.Sort(words)
	return strings.Join(words, "+")
}

func annotation(name string) func(*unstructured.Unstructured) string {
	return func(object *unstructured.Unstructured) string {
		if value, found := object.GetAnnotations()[name]; found {
			return value
		}
		return none
	}
}

func presence(annotation string) func(*unstructured.Unstructured) string {
	return func(object *unstructured.Unstructured) string { return presenceOf(object.GetAnnotations()[annotation]) }
}

func presenceOf(value string) string {
	if value == "" {
		return none
	}
	return "set"
}

func owner(object *unstructured.Unstructured) string {
	var words []string
	for _, ref := range object.GetOwnerReferences() {
		words = append(words, ref.Kind)
	}
	return joined(words)
}

// status lists the fields that are set, the values of flags, and the error's text.
func status(object *unstructured.Unstructured) string {
	fields, found, _ := unstructured.NestedMap(object.Object, "status")
	if !found {
		return none
	}
	if len(fields) == 0 {
		return "empty"
	}
	var words []string
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		switch value := fields[field].(type) {
		case bool:
			words = append(words, fmt.Sprintf("%s=%t", field, value))
		case map[string]any:
			if field == "error" {
				message, _ := value["message"].(string)
				words = append(words, "error="+message)
			} else {
				words = append(words, field)
			}
		default:
			words = append(words, field)
		}
	}
	return strings.Join(words, " ")
}

var uid = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// memberName is the name of a group's member; all members go through the same.
var memberName = regexp.MustCompile(`snapshot-[0-9a-f]{64}`)

// anonymous replaces what is different in each run.
func anonymous(s string, names map[string]string) string {
	for _, name := range slices.SortedFunc(maps.Keys(names), func(a, b string) int { return len(b) - len(a) }) {
		if name != "" {
			s = strings.ReplaceAll(s, name, names[name])
		}
	}
	return memberName.ReplaceAllString(uid.ReplaceAllString(s, "UID"), "snapshot-MEMBER")
}
