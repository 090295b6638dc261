package csisnapshot

import (
	"time"
)

// readClock says when the waiter reads. The waiter's lock guards it.
type readClock struct {
	epoch    time.Time // start of the polling schedule
	poll     time.Time // next poll round, if anything is polled
	safety   time.Time // next read of everything
	probe    time.Time // when watches that have told nothing are doubted; zero: they are not
	pause    time.Time // before which the server wants no read
	due      []*entry  // to be read out of turn
	failures int       // rounds with a failed read in a row
}

// probeDelay is when a watch that has told nothing is first doubted.
const probeDelay = 5 * time.Second

// added starts the schedule anew for a new snapshot, without delaying a round that is due sooner.
func (c *readClock) added(now time.Time, s Schedule, quiet bool) {
	c.epoch = now
	c.poll = sooner(c.poll, now.Add(s.Next(0)))
	if quiet {
		c.probe = sooner(c.probe, now.Add(probeDelay))
	}
}

// queue notes that the entry has something to be read out of turn.
func (c *readClock) queue(e *entry) {
	if !e.queued {
		e.queued = true
		c.due = append(c.due, e)
	}
}

// restart polls now, and from here on by the schedule.
func (c *readClock) restart(now time.Time) { c.epoch, c.poll = now, now }

// sooner is the earlier of two times, of which zero is no time.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// round is what one round of reads covers.
type round struct {
	namespaces []string
	contents   []*entry // whose content is read
	out        []*entry // that are read out of turn
	confirm    []Ref    // snapshots that are read by name
	safety     bool
}

func (r round) empty() bool {
	return len(r.namespaces) == 0 && len(r.contents) == 0 && len(r.confirm) == 0
}

// plan says what is to be read now, and when to look again.
func (w *Waiter) plan(now time.Time) (r round, next time.Time) {
	if len(w.entries)+len(w.trail) == 0 {
		w.read.safety, w.read.probe, w.read.due = time.Time{}, time.Time{}, nil
		return round{}, time.Time{}
	}
	c := &w.read
	if now.Before(c.pause) {
		return round{}, c.pause
	}
	namespaces, contents := map[string]bool{}, map[*entry]bool{}
	if w.polling() {
		if !now.Before(c.poll) {
			w.cover(namespaces, contents, func(s *stream) bool { return s.polling })
			c.poll = c.epoch.Add(w.opts.Schedule.Next(now.Sub(c.epoch)))
		}
		next = sooner(next, c.poll)
	}
	if c.safety.IsZero() {
		c.safety = now.Add(w.safetyInterval())
	}
	if due(c.probe, now) {
		c.probe = time.Time{}
		if w.quiet() {
			c.safety = now
		}
	}
	if !now.Before(c.safety) {
		w.cover(namespaces, contents, func(*stream) bool { return true })
		r.safety = true
		c.safety = now.Add(w.safetyInterval())
	}
	if w.isOpen() { // what opens the last watch wakes the reader
		r.out, r.confirm = w.takeDue(namespaces, contents, now)
		for _, e := range c.due {
			next = sooner(next, e.nextRead())
		}
	}
	r.namespaces = keys(namespaces, func(a, b string) bool { return a < b })
	r.contents = keys(contents, func(a, b *entry) bool { return a.state.Ref.Compare(b.state.Ref) < 0 })
	return r, sooner(sooner(next, sooner(c.safety, c.probe)), w.silence(now))
}

// safetyInterval leaves at least two reads before any timeout.
func (w *Waiter) safetyInterval() time.Duration {
	return min(w.opts.SafetyRead, max(w.opts.Timeout/3, time.Millisecond))
}

// cover adds what the chosen streams have to be read for.
func (w *Waiter) cover(namespaces map[string]bool, contents map[*entry]bool, chosen func(*stream) bool) {
	for _, s := range w.streams {
		if !chosen(s) {
			continue
		}
		if s.resource == snapshotsResource && len(w.trailIn(s.namespace)) > 0 {
			namespaces[s.namespace] = true
			continue
		}
		for _, e := range w.entries {
			if s.resource == contentsResource && !e.state.Cut {
				contents[e] = true
			} else if s.resource == snapshotsResource && e.state.Ref.Namespace == s.namespace {
				namespaces[s.namespace] = true
				break
			}
		}
	}
}

// isOpen reports whether every watch is open or replaced by polling. Before, nothing is read out of turn.
func (w *Waiter) isOpen() bool {
	for _, s := range w.streams {
		if !s.ready {
			return false
		}
	}
	return true
}

// takeDue adds the entries that are to be read out of turn by now.
func (w *Waiter) takeDue(namespaces map[string]bool, contents map[*entry]bool, now time.Time) (taken []*entry, confirm []Ref) {
	kept := w.read.due[:0]
	for _, e := range w.read.due {
		switch at := e.nextRead(); {
		case e.ended || at.IsZero():
			e.queued = false
		case now.Before(at):
			kept = append(kept, e)
		default:
			e.queued = false
			taken = append(taken, e)
			switch {
			case !due(e.readSnapshot, now):
			case e.confirm:
				confirm = append(confirm, e.state.Ref)
			default:
				namespaces[e.state.Ref.Namespace] = true
			}
			if due(e.readContent, now) {
				contents[e] = true
			}
		}
	}
	clear(w.read.due[len(kept):])
	w.read.due = kept
	return taken, confirm
}

func due(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

// nextRead is when the entry is to be read out of turn; zero: not.
func (e *entry) nextRead() time.Time { return sooner(e.readSnapshot, e.readContent) }

// rereadStream asks for everything that the stream may have missed.
func (w *Waiter) rereadStream(s *stream, now time.Time) {
	for _, e := range w.entries {
		switch {
		case s.resource == snapshotsResource && e.state.Ref.Namespace == s.namespace:
			e.readSnapshot = now
		case s.resource == contentsResource && !e.state.Cut:
			e.readContent = now
		default:
			continue
		}
		w.read.queue(e)
	}
}

// polling reports whether any stream is replaced by reads.
func (w *Waiter) polling() bool {
	for _, s := range w.streams {
		if s.polling {
			return true
		}
	}
	return false
}

// quiet reports whether a watch has told nothing since it is open.
func (w *Waiter) quiet() bool {
	for _, s := range w.streams {
		if !s.polling && !s.alive {
			return true
		}
	}
	return false
}

// silence wakes streams whose watch did not tell what a read has found, and says when to look again.
func (w *Waiter) silence(now time.Time) (next time.Time) {
	for _, s := range w.streams {
		if s.missed.IsZero() {
			continue
		}
		if at := s.missed.Add(silenceGrace); now.Before(at) {
			next = sooner(next, at)
			continue
		}
		s.missed = time.Time{}
		poke(s.silent)
	}
	return next
}
