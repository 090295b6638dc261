package phasekube

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sheetanchor/sheetanchor/phase"
)

// conditions returns the object's list as c leaves it. Entries that c does not change stay as they are, also where they are
// no metav1.Condition: a merge patch replaces the whole list.
func (o *Object[P]) conditions(obj *unstructured.Unstructured, c phase.Change[P]) ([]any, error) {
	stored, _, err := unstructured.NestedSlice(obj.Object, o.paths.conditions...)
	if err != nil {
		return nil, fmt.Errorf("%w object: %w", phase.ErrInvalid, err)
	}
	var old []metav1.Condition
	where := map[string]int{} // by type, the first that has it
	for i, entry := range stored {
		var condition metav1.Condition
		raw, ok := entry.(map[string]any)
		if !ok || runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &condition) != nil {
			// What cannot be read keeps at least its type, so that no second one is written beside it.
			condition = metav1.Condition{Type: place(raw).text("type")}
		}
		if _, twice := where[condition.Type]; !twice && condition.Type != "" {
			where[condition.Type] = i
			old = append(old, condition)
		}
	}
	var generation int64
	if len(o.sub) > 0 {
		generation = obj.GetGeneration()
	}
	list := slices.Clone(stored)
	for _, next := range c.Conditions(generation, old) {
		if slices.Contains(old, next) {
			continue
		}
		raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&next)
		if err != nil {
			return nil, fmt.Errorf("%w condition: %w", phase.ErrInvalid, err)
		}
		i, ok := where[next.Type]
		if !ok {
			list = append(list, raw)
			continue
		}
		entry := map[string]any{}
		if have, ok := stored[i].(map[string]any); ok {
			entry = maps.Clone(have)
			delete(entry, "observedGeneration")
		}
		maps.Copy(entry, raw)
		list[i] = entry
	}
	return list, nil
}
