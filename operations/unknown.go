package operations

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/sheetanchor/sheetanchor/internal/gzipjson"
)

// splitEntry reads an entry with unknown keys and keeps these.
func (f Form) splitEntry(raw []byte) (Operation, types.UID, error) {
	op, uid, err := f.decodeEntry(func(v any) error { return json.Unmarshal(raw, v) })
	if err != nil {
		return op, uid, err
	}
	specKeys := []string{"backupName", "backupUID", "backupItemAction", resourceKey, "operationID", postItemsKey}
	if f == RestoreForm {
		specKeys = []string{"restoreName", "restoreUID", "restoreItemAction", resourceKey, "operationID"}
	}
	statusKeys := []string{
		"phase", "error", "nCompleted", "nTotal", "operationUnits", "description", "created", "started", "updated", ownKey,
	}
	var x extra
	var faults [5]error
	specRaw, err := member(raw, "spec")
	if err != nil {
		return op, uid, err
	}
	statusRaw, err := member(raw, "status")
	if err != nil {
		return op, uid, err
	}
	ownRaw, err := member(statusRaw, ownKey)
	if err != nil {
		return op, uid, err
	}
	x.entry, faults[0] = unknown(raw, []string{"spec", "status"})
	x.spec, faults[1] = unknown(specRaw, specKeys)
	x.status, faults[2] = unknown(statusRaw, statusKeys)
	x.own, faults[3] = unknown(ownRaw, ownKeys(op))
	x.resources, faults[4] = unknownInResources(op, specRaw)
	if len(x.entry)+len(x.spec)+len(x.status)+len(x.own)+len(x.resources) > 0 {
		op.extra = &x
	}
	return op, uid, errors.Join(faults[:]...)
}

// ownKeys are the known members of our own object. An outcome that said nothing is kept as if it were unknown.
func ownKeys(op Operation) []string {
	keys := []string{"cancelRequested", "cancelReason"}
	if p := op.Status.Phase; p == PhaseCanceled || p == PhaseAbandoned {
		keys = append(keys, "outcome")
	}
	return keys
}

// unknownInResources returns the unknown keys of the resources in a spec, by their places.
func unknownInResources(op Operation, spec json.RawMessage) (map[place]fields, error) {
	resource, err := member(spec, resourceKey)
	if err != nil {
		return nil, err
	}
	own, items := op.places()
	places, raws := []place{own}, []json.RawMessage{resource}
	if len(op.PostItems) > 0 {
		list, err := member(spec, postItemsKey)
		if err != nil {
			return nil, err
		}
		var posts []json.RawMessage
		if err := json.Unmarshal(list, &posts); err != nil {
			return nil, err
		}
		if len(posts) != len(op.PostItems) {
			return nil, errors.New("post items stand there twice")
		}
		places, raws = append(places, items...), append(raws, posts...)
	}
	var out map[place]fields
	for i, at := range places {
		f, err := unknown(raws[i], []string{"Group", "Resource", "Namespace", "Name"})
		if err != nil {
			return nil, err
		}
		if len(f) == 0 {
			continue
		}
		if out == nil {
			out = map[place]fields{}
		}
		out[at] = f
	}
	return out, nil
}

// member returns the member of a JSON object that encoding/json would read for name; nothing for null or nothing.
func member(object json.RawMessage, name string) (json.RawMessage, error) {
	if len(object) == 0 {
		return nil, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(object, &members); err != nil {
		return nil, err
	}
	if raw, ok := members[name]; ok {
		return raw, nil
	}
	for _, k := range slices.Sorted(maps.Keys(members)) {
		if strings.EqualFold(k, name) {
			return members[k], nil
		}
	}
	return nil, nil
}

// unknown returns the members that are not known, in the form in which encoding them again leaves them.
func unknown(object json.RawMessage, known []string) (fields, error) {
	var members map[string]json.RawMessage
	var err error
	if len(object) > 0 {
		members, err = gzipjson.Unknown(object, known)
	}
	if err != nil || len(members) == 0 {
		return nil, err
	}
	out := fields{}
	for k, raw := range members {
		value, err := json.Marshal(raw)
		if err != nil {
			return nil, err
		}
		out[k] = string(value)
	}
	return out, nil
}
