package backuptest

import (
	"k8s.io/apimachinery/pkg/watch"

	"github.com/sheetanchor/sheetanchor/internal/apiserver"
)

// disturb makes a watch suffer the fault, if it is one of watches.
func (f *Fault) disturb(stream *apiserver.Stream) {
	switch f.Action {
	case FaultEndWatch:
		f.stop(stream, stream.End)
	case FaultExpireWatch:
		f.stop(stream, stream.Expire)
	case FaultLoseEvent:
		f.filter(stream, func(n int) bool { return n != f.After+1 }, nil)
	case FaultSilenceWatch:
		f.filter(stream, func(n int) bool { return n <= f.After }, func(n int) bool { return n < f.After })
	case FaultLoseBookmarks:
		f.filter(stream, nil, func(int) bool { return false })
	default:
	}
}

// stop calls end after After events.
func (f *Fault) stop(stream *apiserver.Stream, end func()) {
	if f.After <= 0 {
		end()
		return
	}
	f.filter(stream, func(n int) bool {
		if n == f.After {
			end()
		}
		return true
	}, nil)
}

// filter lets the nth counted event pass if event says so, and a bookmark after n of them if bookmark does. A nil func
// lets all pass.
func (f *Fault) filter(stream *apiserver.Stream, event, bookmark func(n int) bool) {
	n := 0
	stream.Intercept(func(e apiserver.Event) bool {
		if e.Type == watch.Bookmark {
			return bookmark == nil || bookmark(n)
		}
		if f.Object != "" && f.Object != e.Name {
			return true
		}
		n++
		return event == nil || event(n)
	})
}
