package backuptest

import (
	"sync"

	"k8s.io/apimachinery/pkg/watch"
)

// plainWatch is a watch whose events are converted. Unlike watch.Filter it ends when it is stopped with an event on its way.
type plainWatch struct {
	from    watch.Interface
	out     chan watch.Event
	stopped chan struct{}
	stop    sync.Once
}

// newPlainWatch passes on the events that convert lets pass, until either side ends.
func newPlainWatch(from watch.Interface, convert func(watch.Event) (watch.Event, bool)) *plainWatch {
	w := &plainWatch{from: from, out: make(chan watch.Event), stopped: make(chan struct{})}
	go w.pass(convert)
	return w
}

func (w *plainWatch) ResultChan() <-chan watch.Event { return w.out }

func (w *plainWatch) Stop() {
	w.stop.Do(func() {
		close(w.stopped)
		w.from.Stop()
	})
}

func (w *plainWatch) pass(convert func(watch.Event) (watch.Event, bool)) {
	defer close(w.out)
	for {
		select {
		case event, open := <-w.from.ResultChan():
			if !open {
				return
			}
			event, passes := convert(event)
			if !passes {
				continue
			}
			select {
			case w.out <- event:
			case <-w.stopped:
				return
			}
		case <-w.stopped:
			return
		}
	}
}
