package backuptest_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

// B3: each trouble does to an effect of a client what its name says: done or not, and the process dead or not.
func TestTroubles(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		trouble backuptest.Trouble
		check   func(error) bool
		done    bool
		dead    bool
	}{
		"none":         {0, func(err error) bool { return err == nil }, true, false},
		"crash after":  {backuptest.CrashAfter, isCrash, true, true},
		"crash before": {backuptest.CrashBefore, isCrash, false, true},
		"lose answer":  {backuptest.LoseAnswer, isReset, true, false},
		"fail":         {backuptest.FailEffect, isReset, false, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, backuptest.Options{}, func(c clients) {
				t := c.t
				ctx, p := backuptest.NewProcess(t.Context(), map[int]backuptest.Trouble{2: tc.trouble})
				defer p.Kill()
				own := c
				own.core = kubernetes.NewForConfigOrDie(p.Config(c.cluster.Config()))
				if err := create(ctx, own, "one"); err != nil {
					t.Fatalf("the effect before: %v", err)
				}
				if err := create(ctx, own, "two"); !tc.check(err) {
					t.Errorf("the effect = %v, want another outcome", err)
				}
				if got := exists(t, c, "two"); got != tc.done {
					t.Errorf("done: %v, want %v", got, tc.done)
				}
				if p.Crashed() != tc.dead || errors.Is(context.Cause(ctx), backuptest.ErrCrashed) != tc.dead {
					t.Errorf("crashed: %v, cause %v, want dead: %v", p.Crashed(), context.Cause(ctx), tc.dead)
				}
				err := create(t.Context(), own, "three")
				_, readErr := own.core.CoreV1().ConfigMaps("app").Get(t.Context(), "one", metav1.GetOptions{})
				if isCrash(err) != tc.dead || isCrash(readErr) != tc.dead || exists(t, c, "three") == tc.dead {
					t.Errorf("afterwards: write %v, read %v, want both to fail if dead: %v", err, readErr, tc.dead)
				}
				want := []string{"create configmaps app/one", "create configmaps app/two", "create configmaps app/three"}
				if tc.dead {
					want = want[:2]
				}
				if diff := cmp.Diff(want, p.Effects()); diff != "" {
					t.Errorf("effects -want +got:\n%s", diff)
				}
			})
		})
	}
}

func isCrash(err error) bool { return errors.Is(err, backuptest.ErrCrashed) }

// B3: an effect is counted once, with all that it is made of, and what was under way at the crash has no answer.
func TestDo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, p := backuptest.NewProcess(t.Context(), map[int]backuptest.Trouble{3: backuptest.CrashAfter})
		nothing := func(context.Context) error { return nil }
		outer := p.Do(ctx, "outer", func(ctx context.Context) error { return p.Do(ctx, "inner", nothing) })
		if outer != nil || !slices.Equal(p.Effects(), []string{"outer"}) {
			t.Errorf("outer = %v, effects %v, want the outer one alone", outer, p.Effects())
		}
		var done atomic.Int32
		slow := make(chan error)
		go func() {
			slow <- p.Do(ctx, "slow", func(context.Context) error { time.Sleep(2 * time.Second); done.Add(1); return nil })
		}()
		synctest.Wait()
		last := make(chan error)
		go func() {
			last <- p.Do(ctx, "last", func(context.Context) error { time.Sleep(time.Second); done.Add(1); return nil })
		}()
		synctest.Wait()
		if err := p.Do(ctx, "late", func(context.Context) error { done.Add(1); return nil }); !isCrash(err) {
			t.Errorf("an effect that began after the last = %v, want that it does not happen", err)
		}
		if err := <-last; !isCrash(err) || !p.Crashed() {
			t.Errorf("last = %v, crashed %v", err, p.Crashed())
		}
		if err := <-slow; !isCrash(err) || done.Load() != 2 {
			t.Errorf("slow = %v, %d done, want no answer and two done", err, done.Load())
		}
		if err := p.Do(ctx, "dead", nothing); !isCrash(err) {
			t.Errorf("a dead process's effect = %v", err)
		}
		p.Kill()
	})
}

// B3: what the function itself returns reaches the process.
func TestDoReturnsTheError(t *testing.T) {
	t.Parallel()
	ctx, p := backuptest.NewProcess(t.Context(), map[int]backuptest.Trouble{2: backuptest.LoseAnswer, 3: backuptest.FailEffect})
	defer p.Kill()
	want, calls := errors.New("conflict"), 0
	for n, check := range []error{want, backuptest.ErrNoAnswer, backuptest.ErrEffectFailed} {
		if err := p.Do(ctx, "effect", func(context.Context) error { calls++; return want }); !errors.Is(err, check) {
			t.Errorf("effect %d = %v, want %v", n+1, err, check)
		}
	}
	if calls != 2 {
		t.Errorf("%d calls, want two: the third effect failed before it", calls)
	}
}

// disk is a program's world: a number of steps that are done, in order.
type disk struct{ steps []string }

// build does the steps that are not done yet.
func (d *disk) build(ctx context.Context, p *backuptest.Process) error {
	for _, step := range []string{"a", "b", "c"}[len(d.steps):] {
		if err := p.Do(ctx, step, func(context.Context) error { d.steps = append(d.steps, step); return nil }); err != nil {
			return err
		}
	}
	return nil
}

// B3: EachCrash visits every effect in every kind and ends with the first that no run has; Run resumes.
func TestEachCrash(t *testing.T) {
	t.Parallel()
	var visited []string
	for crash := range backuptest.EachCrash(backuptest.CrashAfter, backuptest.FailEffect) {
		d, lives := &disk{}, 0
		err := crash.Run(t.Context(), func(ctx context.Context, p *backuptest.Process) error {
			lives++
			return d.build(ctx, p)
		})
		if err != nil || !slices.Equal(d.steps, []string{"a", "b", "c"}) {
			t.Errorf("%v: %v, steps %v", crash, err, d.steps)
		}
		if want := 2; lives != want && len(visited) < 6 {
			t.Errorf("%v: %d lives, want %d", crash, lives, want)
		}
		visited = append(visited, crash.String())
	}
	want := []string{
		"crash after effect 1", "fail effect 1", "crash after effect 2", "fail effect 2", "crash after effect 3", "fail effect 3",
		"crash after effect 4", "fail effect 4",
	}
	if diff := cmp.Diff(want, visited); diff != "" {
		t.Errorf("visited -want +got:\n%s", diff)
	}
}

// B3: a test may stop looking, and a crash nobody ran is the last.
func TestEachCrashEnds(t *testing.T) {
	t.Parallel()
	n := 0
	for crash := range backuptest.EachCrash() {
		n++
		d := &disk{}
		_ = crash.Run(t.Context(), d.build)
		if n == 2 {
			break
		}
	}
	for range backuptest.EachCrash() {
		n++
	}
	if n != 3 {
		t.Errorf("%d crashes, want two and one", n)
	}
}

// B3: a crash of several processes goes through them one by one, and an error without trouble is the program's own.
func TestNewCrash(t *testing.T) {
	t.Parallel()
	d, lives := &disk{}, 0
	crash := backuptest.NewCrash(
		map[int]backuptest.Trouble{1: backuptest.CrashBefore}, nil, map[int]backuptest.Trouble{1: backuptest.LoseAnswer},
	)
	if got, want := crash.String(), "crash before effect 1, then lose the answer of effect 1"; got != want {
		t.Errorf("String = %q, want %q", got, want)
	}
	if got := backuptest.NewCrash().String(); got != "no trouble" {
		t.Errorf("String = %q", got)
	}
	own := errors.New("own")
	err := crash.Run(t.Context(), func(ctx context.Context, p *backuptest.Process) error {
		lives++
		if lives == 2 {
			return own
		}
		return d.build(ctx, p)
	})
	if !errors.Is(err, own) || lives != 2 {
		t.Errorf("Run = %v after %d lives, want the second's own error", err, lives)
	}
	// A process that ignores its lost answer has done its work.
	lives = 0
	err = backuptest.NewCrash(map[int]backuptest.Trouble{1: backuptest.LoseAnswer}).Run(t.Context(), func(ctx context.Context, p *backuptest.Process) error {
		lives++
		_ = d.build(ctx, p)
		return nil
	})
	if err != nil || lives != 1 {
		t.Errorf("Run = %v after %d lives, want one without an error", err, lives)
	}
}
