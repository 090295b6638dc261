package operations

import (
	"encoding/json"
	"strconv"
	"time"
)

// names are those members of a spec of which the two forms have different ones.
type names struct{ owner, uid, action string }

func (f Form) names() names {
	if f == RestoreForm {
		return names{owner: "restoreName", uid: "restoreUID", action: "restoreItemAction"}
	}
	return names{owner: "backupName", uid: "backupUID", action: "backupItemAction"}
}

// specNames, statusNames, ownNames and resourceNames are the members of each object.
func (f Form) specNames() []string {
	if f == RestoreForm {
		return []string{"restoreName", "restoreUID", "restoreItemAction", resourceKey, "operationID"}
	}
	return []string{"backupName", "backupUID", "backupItemAction", resourceKey, "operationID", postItemsKey}
}

func statusNames() []string {
	return []string{
		"phase", "error", "nCompleted", "nTotal", "operationUnits", "description", "created", "started", "updated", ownKey,
	}
}

func ownNames() []string { return []string{"outcome", "cancelRequested", "cancelReason", "parent"} }

func resourceNames() []string { return []string{"Group", "Resource", "Namespace", "Name"} }

// document is JSON text that grows. It writes what encoding/json would write for the types of wire.go, without
// reflection; what is not plain ASCII it leaves to encoding/json.
type document struct {
	buf   []byte
	form  Form
	names names
	key   Key
	none  extra // of an operation without unknown keys
}

// entry appends one entry. The unknown keys that came with an object stand at its end, in the order of their names.
func (d *document) entry(op *Operation) {
	x := op.extra
	if x == nil {
		x = &d.none
	}
	d.buf = append(d.buf, `{"spec":{`...)
	d.member(d.names.owner)
	d.string(d.key.Name)
	d.member(d.names.uid)
	d.string(string(d.key.UID))
	d.member(d.names.action)
	d.string(op.Action)
	d.member(resourceKey)
	d.resource(op.Resource, x.resources[place{op.Resource, -1}])
	d.member("operationID")
	d.string(op.ID)
	if d.form == BackupForm {
		d.member(postItemsKey)
		d.postItems(op, x)
	}
	d.unknown(x.spec, d.form.specNames())
	d.buf = append(d.buf, `},"status":{`...)
	d.status(op, x)
	d.buf = append(d.buf, '}')
	d.unknown(x.entry, []string{"spec", "status"})
	d.buf = append(d.buf, '}')
}

func (d *document) postItems(op *Operation, x *extra) {
	if op.PostItems == nil {
		d.buf = append(d.buf, "null"...)
		return
	}
	d.buf = append(d.buf, '[')
	var at []place
	if len(x.resources) > 0 {
		at = op.places()
	}
	for i, id := range op.PostItems {
		if i > 0 {
			d.buf = append(d.buf, ',')
		}
		var more fields
		if at != nil {
			more = x.resources[at[i]]
		}
		d.resource(id, more)
	}
	d.buf = append(d.buf, ']')
}

func (d *document) resource(id ResourceID, more fields) {
	d.buf = append(d.buf, '{')
	d.member("Group")
	d.string(id.Group)
	d.member("Resource")
	d.string(id.Resource)
	d.member("Namespace")
	d.string(id.Namespace)
	d.member("Name")
	d.string(id.Name)
	d.unknown(more, resourceNames())
	d.buf = append(d.buf, '}')
}

func (d *document) status(op *Operation, x *extra) {
	s := op.Status
	phase, outcome := s.Phase, Phase("")
	if phase == PhaseCanceled || phase == PhaseAbandoned {
		phase, outcome = PhaseFailed, phase
	}
	d.optional("phase", string(phase))
	d.optional("error", s.Error)
	d.number("nCompleted", s.Completed)
	d.number("nTotal", s.Total)
	d.optional("operationUnits", s.Units)
	d.optional("description", s.Description)
	d.time("created", s.Created)
	d.time("started", s.Started)
	d.time("updated", s.Updated)
	if outcome != "" || s.CancelRequested != nil || s.CancelReason != "" || op.Parent != "" || len(x.own) > 0 {
		d.member(ownKey)
		d.buf = append(d.buf, '{')
		d.optional("outcome", string(outcome))
		d.time("cancelRequested", s.CancelRequested)
		d.optional("cancelReason", s.CancelReason)
		d.optional("parent", op.Parent)
		known := ownNames()
		if outcome == "" {
			known = known[1:] // one that said nothing is kept
		}
		d.unknown(x.own, known)
		d.buf = append(d.buf, '}')
	}
	d.unknown(x.status, statusNames())
}

// unknown appends members that came with the object, but for names that are known by now.
func (d *document) unknown(more fields, known []string) {
	for _, f := range more {
		if isOneOf([]byte(f.key), known) {
			continue
		}
		d.comma()
		d.string(f.key)
		d.buf = append(d.buf, ':')
		d.buf = append(d.buf, f.value...)
	}
}

// member begins a member of which the name needs no escapes.
func (d *document) member(name string) {
	d.comma()
	d.buf = append(d.buf, '"')
	d.buf = append(d.buf, name...)
	d.buf = append(d.buf, '"', ':')
}

func (d *document) comma() {
	if d.buf[len(d.buf)-1] != '{' {
		d.buf = append(d.buf, ',')
	}
}

func (d *document) optional(name, value string) {
	if value != "" {
		d.member(name)
		d.string(value)
	}
}

func (d *document) number(name string, value int64) {
	if value != 0 {
		d.member(name)
		d.buf = strconv.AppendInt(d.buf, value, 10)
	}
}

// time appends whole seconds in UTC, which is what an operation in a list has.
func (d *document) time(name string, value *time.Time) {
	if value != nil {
		d.member(name)
		d.buf = append(d.buf, '"')
		d.buf = value.AppendFormat(d.buf, time.RFC3339)
		d.buf = append(d.buf, '"')
	}
}

func (d *document) string(s string) {
	if mayNeedEscape(s) {
		text, _ := json.Marshal(s) // a string always can be
		d.buf = append(d.buf, text...)
		return
	}
	d.buf = append(d.buf, '"')
	d.buf = append(d.buf, s...)
	d.buf = append(d.buf, '"')
}

// mayNeedEscape reports whether encoding/json may write s in another way than as it is.
func mayNeedEscape[T string | []byte](s T) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return true
		}
	}
	return false
}
