package backuptest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// Crash says which effects of a program meet trouble, in its first process and in those that follow it.
type Crash struct {
	lives []map[int]Trouble
	none  bool // it is of a kind of trouble that is none
	met   bool
}

// NewCrash returns a crash of several processes: the nth meets the nth map's troubles, by the number of the effect. The
// process after the last map meets none.
func NewCrash(lives ...map[int]Trouble) *Crash { return &Crash{lives: lives} }

// EachCrash returns crashes one after the other: of the 1st effect, of the 2nd, and so on, each in every of the kinds, which
// default to [CrashAfter]. It ends when [Crash.Run] came to no trouble, since the program has no more effects. Use each
// before asking for the next.
//
//	for crash := range backuptest.EachCrash() {
//		err := crash.Run(ctx, func(ctx context.Context, p *backuptest.Process) error { ... })
//	}
//
// A program that may be in any order with itself, by goroutines, meets a crash at other effects in each run; each run is
// still one that can happen.
func EachCrash(kinds ...Trouble) iter.Seq[*Crash] {
	if len(kinds) == 0 {
		kinds = []Trouble{CrashAfter}
	}
	return func(yield func(*Crash) bool) {
		for met, effect := true, 1; met; effect++ {
			met = false
			for _, kind := range kinds {
				crash := NewCrash(map[int]Trouble{effect: kind})
				crash.none = kind == 0
				if !yield(crash) {
					return
				}
				met = met || crash.met
			}
		}
	}
}

// String names the troubles, for example "crash after effect 3", for errors and subtests.
func (c *Crash) String() string {
	var all []string
	for _, troubles := range c.lives {
		var life []string
		for _, effect := range slices.Sorted(maps.Keys(troubles)) {
			life = append(life, fmt.Sprintf("%v effect %d", troubles[effect], effect))
		}
		if life != nil {
			all = append(all, strings.Join(life, ", "))
		}
	}
	if all == nil {
		return "no trouble"
	}
	return strings.Join(all, ", then ")
}

// Run calls life with a process that meets the first troubles and, as a supervisor would, again with a new process as long as
// the one before has crashed, or has met trouble and ended with an error. It returns what the last one returned. The context
// and all that the process made end with it. It is an error that names it, and nothing runs, if life is nil or a trouble is
// unknown.
func (c *Crash) Run(ctx context.Context, life func(context.Context, *Process) error) error {
	if err := c.wrong(); err != nil {
		return err
	}
	if life == nil {
		return errors.New("run program: the function is nil")
	}
	for n := 0; ; n++ {
		var troubles map[int]Trouble
		if n < len(c.lives) {
			troubles = c.lives[n]
		}
		again, err := c.live(ctx, troubles, life)
		if !again {
			return err
		}
	}
}

func (c *Crash) wrong() error {
	var errs []error
	if c.none {
		errs = append(errs, errors.New("the zero trouble is none, so that there is nothing to test"))
	}
	for n, troubles := range c.lives {
		if err := wrongTroubles(troubles); err != nil {
			errs = append(errs, fmt.Errorf("process %d: %w", n+1, err))
		}
	}
	return errors.Join(errs...)
}

func (c *Crash) live(ctx context.Context, troubles map[int]Trouble, life func(context.Context, *Process) error) (again bool, err error) {
	ctx, p := NewProcess(ctx, troubles)
	defer p.Kill()
	err = life(ctx, p)
	if !p.metTrouble() {
		return false, err
	}
	c.met = true
	return p.Crashed() || err != nil, err
}
