package phasekube

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sheetanchor/sheetanchor/phase"
)

// state reads the fields.
func (o *Object[P]) state(obj *unstructured.Unstructured) (phase.State[P], error) {
	var faults []error
	text := func(path []string) string {
		if path == nil {
			return ""
		}
		s, _, err := unstructured.NestedString(obj.Object, path...)
		if err != nil {
			faults = append(faults, fmt.Errorf("%w object: %w", phase.ErrInvalid, err))
		}
		return s
	}
	when := func(path []string) time.Time {
		s := text(path)
		if s == "" {
			return time.Time{}
		}
		t, err := time.Parse(time.RFC3339, s)
		if err != nil {
			faults = append(faults, fmt.Errorf("%w object: %w", phase.ErrInvalid, err))
		}
		return t.UTC()
	}
	state := phase.State[P]{
		Phase: P(text(o.paths.phase)), UID: string(obj.GetUID()), Version: obj.GetResourceVersion(),
		Owner: text(o.paths.owner), Reason: text(o.paths.reason), Message: text(o.paths.message),
		Started: when(o.paths.started), Completed: when(o.paths.completed),
		Finalizing: when(o.paths.finalizing), Entered: when(o.paths.entered), Changed: when(o.paths.changed),
	}
	if o.paths.reason == nil {
		state.Reason, state.Message = phase.SplitReason(state.Message)
	}
	return state, errors.Join(faults...)
}

// patch is the merge patch that makes the object what c.Result says. Empty reasons and messages are removed.
func (o *Object[P]) patch(old phase.State[P], c phase.Change[P]) map[string]any {
	next := c.Result(old)
	patch := map[string]any{"metadata": map[string]any{"resourceVersion": old.Version}}
	if o.paths.reason == nil {
		next.Message = phase.JoinReason(next.Reason, next.Message)
	}
	put(patch, o.paths.phase, string(next.Phase))
	put(patch, o.paths.reason, next.Reason)
	put(patch, o.paths.message, next.Message)
	if c.Owner != "" {
		put(patch, o.paths.owner, c.Owner)
	}
	stamp := func(path []string, at time.Time) {
		if !at.IsZero() {
			put(patch, path, at.UTC().Format(time.RFC3339))
		}
	}
	stamp(o.paths.started, c.Started)
	stamp(o.paths.finalizing, c.Finalizing)
	stamp(o.paths.entered, c.Entered)
	stamp(o.paths.changed, next.Changed)
	if c.Terminal {
		put(patch, o.paths.completed, c.At.UTC().Format(time.RFC3339))
	}
	return patch
}

// put sets a value in nested maps; an empty one is null, which removes it.
func put(in map[string]any, path []string, value string) {
	if path == nil {
		return
	}
	if value == "" {
		putAny(in, path, nil)
		return
	}
	putAny(in, path, value)
}

func putAny(in map[string]any, path []string, value any) {
	for _, name := range path[:len(path)-1] {
		inner, ok := in[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			in[name] = inner
		}
		in = inner
	}
	in[path[len(path)-1]] = value
}
