package finalize

import (
	"slices"

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
	}
	return false
}

// need makes New refuse the hook because of each argument that is nil.
func (h Hook) need(argument string, v any) Hook {
	if isNil(v) {
		h.faults = append(slices.Clip(h.faults), argument)
	}
	return h
}
