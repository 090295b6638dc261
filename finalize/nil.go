package finalize

import (
	"slices"
	"strings"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/operations"
)

// isNil reports whether v is nil, or a nil pointer of one of the types that are meant for it.
func isNil(v any) bool {
	switch p := v.(type) {
	case nil:
		return true
	case *operations.Map:
		return p == nil
	case *operations.Slot:
		return p == nil
	case *csisnapshot.Snapshotter:
		return p == nil
	case *kubernetes.Clientset:
		return p == nil
	case *dynamic.DynamicClient:
		return p == nil
	}
	return false
}

// argumentFault is what is wrong with an argument of the function that made a hook.
type argumentFault struct{ argument, problem string }

// refuse makes New refuse the hook because of an argument.
func (h Hook) refuse(argument, problem string) Hook {
	h.faults = append(slices.Clip(h.faults), argumentFault{argument, problem})
	return h
}

// need makes New refuse the hook if an argument is nil.
func (h Hook) need(argument string, v any) Hook {
	if isNil(v) {
		return h.refuse(argument, "is nil")
	}
	return h
}

// valid makes New refuse the hook if an argument does not pass its own check.
func (h Hook) valid(argument string, v interface{ Validate() error }) Hook {
	if err := v.Validate(); err != nil {
		return h.refuse(argument, "is invalid: "+strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return h
}
