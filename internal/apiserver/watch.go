package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// watch opens a stream. Its place among the changes is fixed before it answers, so nothing later is missed.
func (s *Server) watch(ctx context.Context, c *call) (*http.Response, error) {
	opts, err := s.listOptions(c, true)
	if err != nil {
		return nil, err
	}
	sel, err := c.selector()
	if err != nil {
		return nil, err
	}
	asked := opts.ResourceVersion
	var from uint64
	if asked != "" {
		if from, err = strconv.ParseUint(asked, 10, 64); err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("resourceVersion: invalid value %q", asked))
		}
	}
	st := &Stream{ctx: ctx, call: c, server: s, sel: sel, after: from, bookmarks: opts.AllowWatchBookmarks, closed: make(chan struct{})}
	s.place(st, from, opts.SendInitialEvents)
	st.start(time.Duration(orZero(opts.TimeoutSeconds)) * time.Second)
	return respond(c.req, http.StatusOK, -1, st), nil
}

// place puts a new stream behind the change with resourceVersion from, or gives it the present state first: when initial
// asks for it, with a bookmark at its end (WatchList), or when from is 0 and initial does not refuse it.
func (s *Server) place(st *Stream, from uint64, initial *bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := st.call.table
	st.ended = t.ended
	if asked := initial != nil && *initial; from == 0 || asked {
		st.at, st.after = t.log.tail(), 0 // a version not reached yet is not waited for
		if initial != nil && !asked {
			return
		}
		for _, o := range t.within(st.call.info.Namespace) {
			if st.sel.matches(o) {
				st.initial = append(st.initial, Event{Type: watch.Added, Name: o.name(), Namespace: o.namespace(), object: o, rv: o.rv})
			}
		}
		if asked && st.bookmarks {
			st.initial = append(st.initial, Event{Type: watch.Bookmark, initialEnd: true, rv: s.rv})
		}
		return
	}
	at, ok := t.log.after(from)
	if !ok {
		st.initial = append(st.initial, gone(fmt.Sprintf("too old resource version: %d (%d)", from, s.rv)))
		return
	}
	st.at = at
}

// gone is the event that tells a client its place in the changes is forgotten.
func gone(message string) Event {
	status := apierrors.NewResourceExpired(message).Status()
	status.Kind, status.APIVersion = "Status", "v1"
	return Event{Type: watch.Error, status: status}
}

// current is the resourceVersion of the last change.
func (s *Server) current() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rv
}
