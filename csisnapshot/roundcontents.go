package csisnapshot

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
)

// readContents reads the contents of the round's entries that are not cut yet.
func (w *Waiter) readContents(ctx context.Context, r round) {
	wanted, named := w.wantedContents(r.contents)
	if len(wanted) == 0 {
		return
	}
	s := w.stream(contentsResource, "")
	if len(wanted) > maxGets || !named {
		w.listContents(ctx, s, wanted, r.safety)
		return
	}
	var group errgroup.Group
	group.SetLimit(readsAtOnce)
	for _, c := range wanted {
		group.Go(func() error { w.getContent(ctx, s, c, r.safety); return nil })
	}
	_ = group.Wait() // trouble is noted with the stream
}

// wantedContent is an entry, what was known of it when the waiter's lock was held, and the name its content has or will have.
type wantedContent struct {
	entry *entry
	ref   Ref
	uid   types.UID
	name  string
}

// wantedContents are the entries still in want of their content, but for those of which it is not known yet which object
// is meant. named is false if a name is not known, as on fakes that give no UID.
func (w *Waiter) wantedContents(entries []*entry) (wanted []wantedContent, named bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	named = true
	for _, e := range entries {
		if e.ended || e.state.Cut {
			e.readContent = time.Time{}
			continue
		}
		if !e.state.identified() {
			continue
		}
		c := wantedContent{entry: e, ref: e.state.Ref, uid: e.state.UID, name: e.contentName()}
		named = named && c.name != ""
		wanted = append(wanted, c)
	}
	return wanted, named
}

// contentName is the name of the entry's content.
func (e *entry) contentName() string {
	if vs := e.snapshot; vs != nil && vs.UID == e.state.UID {
		return contentNameOf(vs)
	}
	if e.state.UID == "" {
		return ""
	}
	return ContentName(e.state.UID)
}

func (w *Waiter) getContent(ctx context.Context, s *stream, c wantedContent, safety bool) {
	var vsc Content
	began := time.Now()
	err := w.call(ctx, func(ctx context.Context) (err error) {
		vsc, err = w.client.Contents().Get(ctx, "", c.name)
		return err
	})
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.entry.ended {
		return
	}
	switch {
	case err == nil:
		w.foundContent(s, &vsc, c.entry.readContent.IsZero() && safety, began, now)
		w.missingContent(c.entry, now) // no harm if it was found; else the name belongs to a content of another snapshot
	case isGone(err):
		w.missingContent(c.entry, now)
		err = nil
	}
	w.noteRead(s, err, now)
}

func (w *Waiter) listContents(ctx context.Context, s *stream, wanted []wantedContent, safety bool) {
	uids, names := map[types.UID]bool{}, map[Ref]bool{}
	for _, c := range wanted {
		if c.uid != "" {
			uids[c.uid] = true
		} else {
			names[c.ref] = true
		}
	}
	var found []*Content
	began := time.Now()
	err := listPages(ctx, w.call, w.client.Contents(), "", "", func(vsc Content) {
		if uids[vsc.Snapshot.UID] || names[Ref{Namespace: vsc.Snapshot.Namespace, Name: vsc.Snapshot.Name}] {
			found = append(found, &vsc)
		}
	})
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteRead(s, err, now)
	if err != nil {
		return
	}
	expected := map[*entry]bool{}
	for _, c := range wanted {
		expected[c.entry] = c.entry.readContent.IsZero()
	}
	for _, vsc := range found {
		w.foundContent(s, vsc, safety && expected[w.uids[vsc.Snapshot.UID]], began, now)
	}
	for _, c := range wanted {
		w.missingContent(c.entry, now)
	}
}

// foundContent takes in a content that was read; doubt says that the watch should have told of it before.
func (w *Waiter) foundContent(s *stream, vsc *Content, doubt bool, began, now time.Time) {
	if w.contentRead(vsc, began, now) && doubt && !s.polling {
		s.missed = sooner(s.missed, now)
	}
}

// missingContent notes that a read has told all there is to know of the entry's content.
func (w *Waiter) missingContent(e *entry, now time.Time) {
	e.readContent = time.Time{}
	w.catchUp(e)
	if e.deciding && !e.ended {
		e.decided = true
		w.judge(e, now)
	}
}
