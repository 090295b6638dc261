package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/examples/internal/program"
	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/phase"
)

// progress listens to every package and shows what happens: plain lines, on a terminal with one line that changes in
// place, and nothing but the result with -o json.
type progress struct {
	stdout   io.Writer
	json     bool
	terminal bool
	started  time.Time
	stopped  func() bool // the user has ended the program

	mu          sync.Mutex
	transitions []program.Transition
	claims      map[string]string // of snapshots
	total, cut  int
	shown       bool // a line that changes in place is on the screen
}

func newProgress(ctx context.Context, opts options, stdout io.Writer) *progress {
	p := &progress{stopped: func() bool { return ctx.Err() != nil }, stdout: stdout, json: opts.output == "json", started: time.Now(), claims: map[string]string{}}
	if f, ok := stdout.(*os.File); ok && !p.json {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// line prints what stays on the screen.
func (p *progress) line(format string, args ...any) {
	if !p.json {
		p.print(false, program.Stamped(p.started, format, args...)+"\n")
	}
}

// status shows what a later status replaces; without a terminal it shows nothing.
func (p *progress) status(format string, args ...any) {
	if p.terminal {
		p.print(true, program.Stamped(p.started, format, args...))
	}
}

// print writes text over a status that is on the screen, in one write and under no lock. The packages call their observers
// one after the other, so there is one print at a time.
func (p *progress) print(status bool, text string) {
	p.mu.Lock()
	if p.shown {
		text = "\r\x1b[K" + text
	}
	p.shown = status
	p.mu.Unlock()
	fmt.Fprint(p.stdout, text)
}

// finish prints the result.
func (p *progress) finish(r result) error {
	if p.json {
		return program.WriteJSON(p.stdout, r)
	}
	p.print(false, "")
	return r.writeText(p.stdout)
}

func (p *progress) made() []program.Transition {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]program.Transition{}, p.transitions...)
}

func (p *progress) phases() phase.Hooks[Phase] {
	return program.Phases[Phase](func(t program.Transition) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.transitions = append(p.transitions, t)
	}, p.line)
}

func (p *progress) snapshots() csisnapshot.Observer {
	return csisnapshot.Observer{
		BatchStarted: func(e csisnapshot.BatchEvent) {
			p.mu.Lock()
			p.total += e.Volumes
			p.mu.Unlock()
			p.line("batch %d of %d: %d pods, %d volumes", e.Batch+1, e.Batches, e.Pods, e.Volumes)
		},
		Created: func(e csisnapshot.VolumeEvent) {
			p.mu.Lock()
			p.claims[e.Snapshot] = e.Claim
			p.mu.Unlock()
		},
		Frozen: func(e csisnapshot.PodEvent) { p.line("  froze pod %s", e.Pod.Name) },
		Thawed: func(e csisnapshot.PodEvent) {
			switch {
			case e.Err != nil:
				p.line("  thaw of pod %s: %v", e.Pod.Name, e.Err)
			case e.Leftover:
				p.line("  thawed pod %s, left frozen by an earlier run", e.Pod.Name)
			default:
				p.line("  thawed pod %s after %.3f s", e.Pod.Name, e.Frozen.Seconds())
			}
		},
		Cut: func(e csisnapshot.VolumeEvent) {
			p.line("  cut %s: %s", e.Claim, e.Handle)
			p.mu.Lock()
			p.cut++
			cut, total := p.cut, p.total
			p.mu.Unlock()
			p.status("%d of %d volumes cut", cut, total)
		},
		Failed: func(e csisnapshot.VolumeEvent) {
			if !p.stopped() { // else the volume has not failed: the next run goes on with it
				p.line("  failed %s: %s", e.Claim, reasonOf(e.Err))
			}
		},
	}
}

// reasonOf is what the driver said, if it said something.
func reasonOf(err error) string {
	if wait, ok := errors.AsType[*csisnapshot.WaitError](err); ok && wait.LastError != "" {
		return program.OneLine(wait.LastError)
	}
	return program.OneLine(err.Error())
}

func (p *progress) operations() operations.PollerHooks {
	return operations.PollerHooks{Changed: func(_ context.Context, _ operations.Key, op operations.Operation) {
		if !op.Status.Phase.IsTerminal() {
			return
		}
		p.mu.Lock()
		name := cmp.Or(p.claims[op.Resource.Name], op.Resource.Name)
		p.mu.Unlock()
		p.line("snapshot of %s: %s", name, op.Status.Phase)
	}}
}
