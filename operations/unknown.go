package operations

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// keepUnknown gives the operation the unknown keys of the text that it was read from.
func (f Form) keepUnknown(op *Operation, raw []byte) error {
	var x extra
	var err error
	object(raw, func(key, text []byte) int {
		switch {
		case isKey(key, "spec"):
			n, fault := x.readSpec(f, op, text)
			err = cmp.Or(err, fault)
			return n
		case isKey(key, "status"):
			return x.readStatus(op, text)
		default:
			return x.entry.set(key, text)
		}
	})
	if err == nil && x.some() {
		op.extra = &x
	}
	return err
}

// readSpec returns the length of the spec.
func (x *extra) readSpec(f Form, op *Operation, spec []byte) (int, error) {
	var err error
	known := f.specNames()
	n := object(spec, func(key, text []byte) int {
		switch {
		case !isOneOf(key, known):
			return x.spec.set(key, text)
		case isKey(key, resourceKey):
			return x.readResource(place{op.Resource, -1}, text)
		case isKey(key, postItemsKey) && len(op.PostItems) > 0:
			n, fault := x.readPostItems(op, text)
			err = cmp.Or(err, fault)
			return n
		default:
			return valueEnd(text)
		}
	})
	return n, err
}

func (x *extra) readPostItems(op *Operation, items []byte) (int, error) {
	places, i := op.places(), 0
	n := array(items, func(text []byte) int {
		if i++; i > len(places) {
			return valueEnd(text)
		}
		return x.readResource(places[i-1], text)
	})
	if i != len(places) {
		return n, errors.New("post items stand there twice")
	}
	return n, nil
}

func (x *extra) readResource(at place, resource []byte) int {
	of := x.resources[at]
	n := object(resource, func(key, text []byte) int {
		if isOneOf(key, resourceNames()) {
			return valueEnd(text)
		}
		return of.set(key, text)
	})
	x.keep(at, of)
	return n
}

// keep keeps the unknown keys of a resource, if there are any.
func (x *extra) keep(at place, of fields) {
	if len(of) == 0 {
		return
	}
	if x.resources == nil {
		x.resources = map[place]fields{}
	}
	x.resources[at] = of
}

// some reports whether there are any unknown keys.
func (x *extra) some() bool {
	return len(x.entry)+len(x.spec)+len(x.status)+len(x.own)+len(x.resources) > 0
}

// readStatus also keeps an outcome that said nothing, as if it were unknown.
func (x *extra) readStatus(op *Operation, status []byte) int {
	known := ownNames()
	if p := op.Status.Phase; p != PhaseCanceled && p != PhaseAbandoned {
		known = known[1:]
	}
	return object(status, func(key, text []byte) int {
		switch {
		case isKey(key, ownKey):
			return object(text, func(key, text []byte) int {
				if isOneOf(key, known) {
					return valueEnd(text)
				}
				return x.own.set(key, text)
			})
		case !isOneOf(key, statusNames()):
			return x.status.set(key, text)
		default:
			return valueEnd(text)
		}
	})
}

// set keeps the member with which text begins, the last of those with one key, in the form in which encoding it again leaves it. It
// returns the length of the value.
func (f *fields) set(key, text []byte) int {
	n := valueEnd(text)
	value := text[:n]
	if slices.ContainsFunc(value, isNotCompact) {
		value, _ = json.Marshal(json.RawMessage(value)) // it was accepted, so it can be written
	}
	at, found := slices.BinarySearchFunc(*f, string(key), func(m field, key string) int { return strings.Compare(m.key, key) })
	if !found {
		*f = slices.Insert(*f, at, field{key: string(key)})
	}
	(*f)[at].value = string(value)
	return n
}

// isNotCompact reports whether encoding/json may write a value that has the byte in another way.
func isNotCompact(c byte) bool { return c <= ' ' || c > '~' || c == '<' || c == '>' || c == '&' }
