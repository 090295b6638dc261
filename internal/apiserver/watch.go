package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
)

// watch opens a stream. Its place among the changes is fixed before it answers, so nothing later is missed.
func (s *Server) watch(ctx context.Context, c *call) (*http.Response, error) {
	sel, err := c.selector()
	if err != nil {
		return nil, err
	}
	initial, err := s.initialEvents(c)
	if err != nil {
		return nil, err
	}
	asked := c.query.Get("resourceVersion")
	var from uint64
	if asked != "" {
		if from, err = strconv.ParseUint(asked, 10, 64); err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("resourceVersion: invalid value %q", asked))
		}
	}
	timeout, err := seconds(c.query.Get("timeoutSeconds"))
	if err != nil {
		return nil, err
	}
	st := &Stream{ctx: ctx, call: c, server: s, sel: sel, after: from, closed: make(chan struct{})}
	s.place(st, from, initial)
	st.start(timeout)
	return respond(c.req, http.StatusOK, -1, st), nil
}

// initialEvents reports whether the watch begins with the state and a bookmark (WatchList).
func (s *Server) initialEvents(c *call) (bool, error) {
	asked := c.query.Get("sendInitialEvents")
	if asked == "" {
		return false, nil
	}
	path := field.NewPath("sendInitialEvents")
	var faults field.ErrorList
	send, err := strconv.ParseBool(asked)
	switch {
	case err != nil:
		faults = append(faults, field.Invalid(path, asked, "must be true or false"))
	case s.opts.RefuseWatchList:
		faults = append(faults, field.Forbidden(path, "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"))
	case c.query.Get("resourceVersionMatch") != string(metav1.ResourceVersionMatchNotOlderThan):
		faults = append(faults, field.Forbidden(field.NewPath("resourceVersionMatch"), "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
	case send && !c.bookmarks():
		faults = append(faults, field.Forbidden(field.NewPath("allowWatchBookmarks"), "sendInitialEvents requires setting allowWatchBookmarks to true"))
	}
	if len(faults) > 0 {
		return false, apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", faults)
	}
	return send, nil
}

func (c *call) bookmarks() bool {
	allowed, err := strconv.ParseBool(c.query.Get("allowWatchBookmarks"))
	return err == nil && allowed
}

func seconds(asked string) (time.Duration, error) {
	if asked == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(asked, 10, 32)
	if err != nil || n < 0 {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("timeoutSeconds: invalid value %q", asked))
	}
	return time.Duration(n) * time.Second, nil
}

// place puts a new stream behind the change with resourceVersion from, or gives it the present state first.
func (s *Server) place(st *Stream, from uint64, initial bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := st.call.table
	st.ended = t.ended
	if from == 0 || initial {
		for _, o := range t.within(st.call.info.Namespace) {
			if st.sel.matches(o) {
				st.initial = append(st.initial, Event{Type: watch.Added, Name: o.u.GetName(), Namespace: o.u.GetNamespace(), object: o, rv: o.rv})
			}
		}
		if initial {
			st.initial = append(st.initial, Event{Type: watch.Bookmark, initialEnd: true, rv: s.rv})
		}
		st.at, st.after = t.log.tail(), 0 // a version not reached yet is not waited for
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
