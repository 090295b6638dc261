package app

import (
	"context"
	"strings"
	"sync"
)

// output keeps what a process writes and tells those who wait for it.
type output struct {
	mu      sync.Mutex
	text    strings.Builder // guarded by mu
	changed chan struct{}   // guarded by mu; closed at the next write
}

func newOutput() *output { return &output{changed: make(chan struct{})} }

// Write never fails.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(p)
	close(o.changed)
	o.changed = make(chan struct{})
	return len(p), nil
}

func (o *output) String() string {
	text, _ := o.now()
	return text
}

func (o *output) now() (text string, changed <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String(), o.changed
}

// await returns nil once enough holds for the whole lines so far, or what ended the wait.
func (o *output) await(ctx context.Context, done <-chan struct{}, enough func(lines []string) bool) error {
	for {
		text, changed := o.now()
		lines := strings.Split(text, "\n")
		if enough(lines[:len(lines)-1]) {
			return nil
		}
		select {
		case <-changed:
		case <-done:
			if text, _ := o.now(); enough(strings.Split(text, "\n")) {
				return nil
			}
			return errEnded
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
