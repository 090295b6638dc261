package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// maxJSONPatch is the real server's limit of operations in one JSON patch.
const maxJSONPatch = 10000

// jsonPatch is an RFC 6902 patch.
type jsonPatch []jsonOperation

type jsonOperation struct {
	op         string
	path, from []string
	value      any
}

func parseJSONPatch(body []byte) (jsonPatch, error) {
	var raw any
	if err := utiljson.Unmarshal(body, &raw); err != nil {
		return nil, fmt.Errorf("the JSON patch is not JSON: %w", err)
	}
	items, ok := raw.([]any)
	if !ok || len(items) > maxJSONPatch {
		return nil, fmt.Errorf("the JSON patch is not a list of at most %d operations", maxJSONPatch)
	}
	patch := make(jsonPatch, 0, len(items))
	for i, item := range items {
		op, err := parseOperation(item)
		if err != nil {
			return nil, fmt.Errorf("operation %d of the JSON patch: %w", i, err)
		}
		patch = append(patch, op)
	}
	return patch, nil
}

func parseOperation(item any) (jsonOperation, error) {
	members, _ := item.(map[string]any)
	var op jsonOperation
	op.op, _ = members["op"].(string)
	var err error
	if op.path, err = pointer(members, "path"); err != nil {
		return op, err
	}
	value, hasValue := members["value"]
	op.value = value
	switch op.op {
	case "remove":
	case "add", "replace", "test":
		if !hasValue {
			return op, fmt.Errorf("%s needs a value", op.op)
		}
	case "move", "copy":
		op.from, err = pointer(members, "from")
	default:
		err = fmt.Errorf("unknown op %q", op.op)
	}
	return op, err
}

func pointer(members map[string]any, name string) ([]string, error) {
	text, ok := members[name].(string)
	if !ok || !strings.HasPrefix(text, "/") {
		return nil, fmt.Errorf("%s %q is not a JSON pointer into the object", name, text)
	}
	parts := strings.Split(text[1:], "/")
	for i, part := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
	}
	return parts, nil
}

// apply changes object. An operation that does not fit it is a 422 answer that names the path.
func (p jsonPatch) apply(object map[string]any) (map[string]any, error) {
	var root any = object
	for _, op := range p {
		var err error
		if root, err = op.apply(root); err != nil {
			return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
				Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
				Message: fmt.Sprintf("the JSON patch cannot be applied: %s /%s: %v", op.op, strings.Join(op.path, "/"), err),
			}}
		}
	}
	patched, ok := root.(map[string]any)
	if !ok {
		return nil, apierrors.NewBadRequest("the JSON patch leaves no object")
	}
	return patched, nil
}

func (op jsonOperation) apply(root any) (any, error) {
	switch op.op {
	case "add":
		return edit(root, op.path, func(any, bool) (any, bool, error) { return runtime.DeepCopyJSONValue(op.value), true, nil }, true)
	case "replace":
		return edit(root, op.path, func(_ any, ok bool) (any, bool, error) { return runtime.DeepCopyJSONValue(op.value), ok, missing(ok) }, false)
	case "remove":
		return edit(root, op.path, func(_ any, ok bool) (any, bool, error) { return nil, false, missing(ok) }, false)
	case "test":
		got, ok := lookup(root, op.path)
		if !ok && op.value != nil || !apiequality.Semantic.DeepEqual(got, op.value) {
			return nil, errors.New("testing value failed")
		}
		return root, nil
	default: // move, copy
		value, ok := lookup(root, op.from)
		if !ok {
			return nil, missing(false)
		}
		value = runtime.DeepCopyJSONValue(value)
		if op.op == "move" {
			var err error
			if root, err = (jsonOperation{op: "remove", path: op.from}).apply(root); err != nil {
				return nil, err
			}
		}
		return (jsonOperation{op: "add", path: op.path, value: value}).apply(root)
	}
}

func missing(ok bool) error {
	if ok {
		return nil
	}
	return errors.New("no such member")
}

func lookup(value any, path []string) (any, bool) {
	for _, part := range path {
		switch at := value.(type) {
		case map[string]any:
			member, ok := at[part]
			if !ok {
				return nil, false
			}
			value = member
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(at) {
				return nil, false
			}
			value = at[i]
		default:
			return nil, false
		}
	}
	return value, true
}

// change makes the new value of a member, told its old one and whether there is one; keep false removes it.
type memberChange func(member any, ok bool) (value any, keep bool, err error)

// edit applies change to the member at path and returns value with it. With insert a list's member is put before the one
// at that index instead of replacing it, and "-" is the end.
func edit(value any, path []string, change memberChange, insert bool) (any, error) {
	part, last := path[0], len(path) == 1
	switch at := value.(type) {
	case map[string]any:
		member, ok := at[part]
		if !last {
			if !ok {
				return nil, missing(false)
			}
			changed, err := edit(member, path[1:], change, insert)
			at[part] = changed
			return at, err
		}
		changed, keep, err := change(member, ok)
		if err != nil {
			return nil, err
		}
		if keep {
			at[part] = changed
		} else {
			delete(at, part)
		}
		return at, nil
	case []any:
		return editList(at, path, change, insert)
	default:
		return nil, missing(false)
	}
}

func editList(at []any, path []string, change memberChange, insert bool) (any, error) {
	last := len(path) == 1
	i, err := strconv.Atoi(path[0])
	if insert && last && path[0] == "-" {
		i, err = len(at), nil
	}
	if err != nil || i < 0 || i > len(at) || i == len(at) && (!insert || !last) {
		return nil, fmt.Errorf("no index %q in a list of %d", path[0], len(at))
	}
	if !last {
		changed, err := edit(at[i], path[1:], change, insert)
		at[i] = changed
		return at, err
	}
	if insert {
		value, _, err := change(nil, false)
		return slices.Insert(at, i, value), err
	}
	value, keep, err := change(at[i], true)
	if err != nil {
		return nil, err
	}
	if !keep {
		return slices.Delete(at, i, i+1), nil
	}
	at[i] = value
	return at, nil
}
