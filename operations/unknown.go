package operations

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// known lists the members of each object, as encoding/json matches them: without regard to case.
type known []string

func (k known) has(name string) bool {
	return slices.ContainsFunc(k, func(s string) bool { return strings.EqualFold(s, name) })
}

// splitEntry reads an entry with unknown keys and keeps these.
func (f Form) splitEntry(raw []byte) (Operation, types.UID, error) {
	op, uid, err := f.decodeEntry(func(v any) error { return json.Unmarshal(raw, v) })
	if err != nil {
		return op, uid, err
	}
	specKeys := known{"backupName", "backupUID", "backupItemAction", resourceKey, "operationID", postItemsKey}
	if f == RestoreForm {
		specKeys = known{"restoreName", "restoreUID", "restoreItemAction", resourceKey, "operationID"}
	}
	statusKeys := known{
		"phase", "error", "nCompleted", "nTotal", "operationUnits", "description", "created", "started", "updated", ownKey,
	}
	var x extra
	entry, err := members(raw)
	if err != nil {
		return op, uid, err
	}
	spec, err := members(pick(entry, "spec"))
	if err != nil {
		return op, uid, err
	}
	status, err := members(pick(entry, "status"))
	if err != nil {
		return op, uid, err
	}
	own, err := members(pick(status, ownKey))
	if err != nil {
		return op, uid, err
	}
	faults := errors.Join(
		unknown(&x.entry, entry, known{"spec", "status"}),
		unknown(&x.spec, spec, specKeys),
		unknown(&x.status, status, statusKeys),
		unknown(&x.own, own, ownKeys(op, own)),
		unknownInResources(&x, op, spec),
	)
	if len(x.entry)+len(x.spec)+len(x.status)+len(x.own)+len(x.resources) > 0 {
		op.extra = &x
	}
	return op, uid, faults
}

// ownKeys are the known members of our own object. An outcome that said nothing is kept as if it were unknown.
func ownKeys(op Operation, own map[string]json.RawMessage) known {
	keys := known{"cancelRequested", "cancelReason"}
	if p := op.Status.Phase; p == PhaseCanceled || p == PhaseAbandoned || string(pick(own, "outcome")) == `""` {
		keys = append(keys, "outcome")
	}
	return keys
}

// unknownInResources keeps the unknown keys of the resources in a spec, by resource.
func unknownInResources(x *extra, op Operation, spec map[string]json.RawMessage) error {
	ids := []ResourceID{op.Resource}
	raws := []json.RawMessage{pick(spec, resourceKey)}
	if len(op.PostItems) > 0 {
		var posts []json.RawMessage
		if err := json.Unmarshal(pick(spec, postItemsKey), &posts); err != nil {
			return err
		}
		if len(posts) != len(op.PostItems) {
			return errors.New("post items stand there twice")
		}
		ids, raws = append(ids, op.PostItems...), append(raws, posts...)
	}
	for i, id := range ids {
		object, err := members(raws[i])
		if err != nil {
			return err
		}
		var f fields
		if err := unknown(&f, object, known{"Group", "Resource", "Namespace", "Name"}); err != nil {
			return err
		}
		if len(f) == 0 {
			continue
		}
		if x.resources == nil {
			x.resources = map[ResourceID]fields{}
		}
		x.resources[id] = f
	}
	return nil
}

// members returns the members of a JSON object; none for null or nothing.
func members(raw json.RawMessage) (map[string]json.RawMessage, error) {
	if len(raw) == 0 {
		return map[string]json.RawMessage{}, nil
	}
	var out map[string]json.RawMessage
	err := json.Unmarshal(raw, &out)
	return out, err
}

// pick returns the member that encoding/json would read for name.
func pick(object map[string]json.RawMessage, name string) json.RawMessage {
	if raw, ok := object[name]; ok {
		return raw
	}
	for _, k := range slices.Sorted(maps.Keys(object)) {
		if strings.EqualFold(k, name) {
			return object[k]
		}
	}
	return nil
}

// unknown copies to f the members that are not known, in the form in which encoding them again leaves them.
func unknown(f *fields, object map[string]json.RawMessage, names known) error {
	for k, raw := range object {
		if names.has(k) {
			continue
		}
		value, err := json.Marshal(raw)
		if err != nil {
			return err
		}
		if *f == nil {
			*f = fields{}
		}
		(*f)[k] = string(value)
	}
	return nil
}
