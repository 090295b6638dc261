package csisnapshot_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/internal/apirequest"
	"github.com/sheetanchor/sheetanchor/internal/race"
)

// meddler is someone else who acts once, before one of the requests of a Release gets to the server.
type meddler struct {
	lab     *waitLab
	ref     csisnapshot.Ref
	content string
	act     func(ctx context.Context, m *meddler)
	before  int           // the request, counted from 0
	turn    chan struct{} // of capacity 1: who holds it may use what follows

	requests         int
	acted            bool
	patched, read    bool                       // Release has written Retain, and read a content since
	removed          bool                       // Release has deleted the snapshot
	policy           csisnapshot.DeletionPolicy // of the content when it acted; empty: there was none
	knew, wasRemoved bool                       // read and removed when it acted
	saw              bool                       // Release has read contents after that
	step             string                     // the request that came next
	destroyed        bool                       // something was deleted before it acted
	deleted          bool
}

// wrap is what the requests of the Release go through, one at a time, each after the controller has seen what was written
// before: one that is behind deletes a content by itself, which TestReleaseLosesNothing has.
func (m *meddler) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		info := apirequest.Parse(r)
		step := info.Verb + " " + info.Resource
		select {
		case m.turn <- struct{}{}:
			defer func() { <-m.turn }()
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		}
		time.Sleep(time.Second)
		if m.requests == m.before {
			m.meddle(r.Context(), step)
		}
		m.requests++
		m.deleted = m.deleted || info.Verb == "delete"
		resp, err := next.RoundTrip(r)
		if err != nil || resp.StatusCode >= http.StatusBadRequest {
			return resp, err
		}
		switch step {
		case "patch volumesnapshotcontents":
			m.patched = true
		case "get volumesnapshotcontents", "list volumesnapshotcontents":
			m.read = m.patched
			m.saw = m.acted
		case "delete volumesnapshots":
			m.removed = true
		}
		return resp, err
	})
}

func (m *meddler) meddle(ctx context.Context, step string) {
	m.knew, m.wasRemoved, m.acted, m.step, m.destroyed = m.read, m.removed, true, step, m.deleted
	if vsc, err := m.lab.other().Contents().Get(ctx, "", m.content); err == nil {
		m.policy = vsc.DeletionPolicy
	}
	m.act(ctx, m)
	time.Sleep(3 * time.Second) // everybody has seen it
}

// snapshotter is of the process that is meddled with.
func (m *meddler) snapshotter() *csisnapshot.Snapshotter {
	m.lab.Helper()
	config := m.lab.cluster.Config()
	config.Wrap(m.wrap)
	s, err := csisnapshot.New(m.lab.core(), adapters["dynamic"](m.lab.T, config), csisnapshot.Options{})
	if err != nil {
		m.lab.Fatal(err)
	}
	return s
}

func (m *meddler) deleteSnapshot(ctx context.Context) {
	_ = m.lab.other().Snapshots().Delete(ctx, m.ref.Namespace, m.ref.Name, csisnapshot.Preconditions{}) // it may be gone
}

func (m *meddler) deleteContent(ctx context.Context) {
	_ = m.lab.other().Contents().Delete(ctx, "", m.content, csisnapshot.Preconditions{}) // it may be gone
}

func (m *meddler) setDelete(ctx context.Context) {
	_, _ = m.lab.other().Contents().Patch(ctx, "", m.content, []byte(`{"spec":{"deletionPolicy":"Delete"}}`)) // it may be gone
}

func TestReleaseBesideSomeoneElse(t *testing.T) {
	t.Parallel()
	// S10: before each request but the first, with which it begins, of a Release in turn someone else deletes the snapshot or the
	// content, or sets the policy back. Where the content says Retain the physical snapshot stays; what is lost is ErrLost, unless it is by the window that the
	// documentation names: the policy was set back after it was read for the last time.
	tests := map[string]struct {
		reason string
		flips  bool // it sets the policy to Delete
		ends   bool // it deletes the snapshot, so that Release may never read what it has written
		act    func(ctx context.Context, m *meddler)
		// avoidable says whether Release could keep the physical snapshot.
		avoidable func(m *meddler) bool
	}{
		"deletes the snapshot": {
			reason: "only a content that says Delete goes with it", ends: true, act: func(ctx context.Context, m *meddler) { m.deleteSnapshot(ctx) },
			avoidable: func(m *meddler) bool { return m.policy != csisnapshot.DeletionPolicyDelete },
		},
		"deletes the content": {
			reason: "its finalizers hold it as long as the snapshot exists", act: func(ctx context.Context, m *meddler) { m.deleteContent(ctx) },
			avoidable: func(*meddler) bool { return true },
		},
		"deletes both": {
			reason: "as with the snapshot alone", ends: true, act: func(ctx context.Context, m *meddler) { m.deleteContent(ctx); m.deleteSnapshot(ctx) },
			avoidable: func(m *meddler) bool { return m.policy != csisnapshot.DeletionPolicyDelete },
		},
		"sets the policy back": {
			reason: "it is read again before every write but the deletion of the snapshot, which has no condition on the content",
			flips:  true, act: func(ctx context.Context, m *meddler) { m.setDelete(ctx) },
			avoidable: func(m *meddler) bool { return m.step != "delete volumesnapshots" },
		},
		"sets the policy back and deletes the content": {
			reason: "as long as the snapshot exists the content may be told to keep it",
			flips:  true, act: func(ctx context.Context, m *meddler) { m.setDelete(ctx); m.deleteContent(ctx) },
			avoidable: func(m *meddler) bool { return m.step != "delete volumesnapshots" && !m.wasRemoved },
		},
		"sets the policy back and deletes the snapshot": {
			reason: "nobody can keep that",
			flips:  true, ends: true, act: func(ctx context.Context, m *meddler) { m.setDelete(ctx); m.deleteSnapshot(ctx) },
			avoidable: func(m *meddler) bool { return m.wasRemoved },
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kept, told, window := 0, 0, 0
			for before, more := 1, true; more && !t.Failed(); before += race.Scaled(1, 3) {
				synctest.Test(t, func(t *testing.T) {
					l := newWaitLab(t, "dynamic", backuptest.ControllerOptions{}, 1)
					ref := l.ready(1)[0]
					synctest.Wait() // the content has its finalizer, without which it would go at once
					m := &meddler{lab: l, ref: ref, content: l.content(ref).Name, act: tt.act, before: before, turn: make(chan struct{}, 1)}
					_, err := m.snapshotter().Release(t.Context(), l.owner, ref)
					time.Sleep(20 * time.Minute) // nothing goes later
					more = m.acted
					at := fmt.Sprintf("before request %d: Release = %v, %s; %+v", before, err, l.left(), *m)
					is := len(l.driver.Snapshots()) == 1
					switch {
					case is:
						kept++
					case errors.Is(err, csisnapshot.ErrLost):
						told++
					default:
						window++
					}
					if err != nil && !errors.Is(err, csisnapshot.ErrLost) {
						t.Errorf("%s: want no error but ErrLost", at)
					}
					if !is && (!m.acted || tt.avoidable(m)) {
						t.Errorf("%s: the physical snapshot is lost, and need not be: %s", at, tt.reason)
					}
					if !is && err == nil && (!tt.flips || !m.knew) {
						t.Errorf("%s: it is lost, and not told", at)
					}
					if is && err != nil && (m.knew || !tt.ends) {
						t.Errorf("%s: it is kept, and told as lost", at)
					}
					if err == nil && l.left()[:len("0 snapshots, 0 contents")] != "0 snapshots, 0 contents" {
						t.Errorf("%s: objects are left", at)
					}
				})
			}
			t.Logf("%d kept, %d lost and told, %d lost in the window", kept, told, window)
		})
	}
}
