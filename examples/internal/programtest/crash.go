package programtest

import (
	"context"
	"errors"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

// CrashAt runs lives, the first of which ends after its kth write, until one comes to its end, and returns how many writes
// the first began and how many lives it took. No life ends before its time if k is 0. Use it inside a synctest bubble.
func CrashAt(t TB, k int, live func(ctx context.Context, p *backuptest.Process) error) (first, lives int) {
	t.Helper()
	crash := backuptest.NewCrash(map[int]backuptest.Trouble{k: backuptest.CrashAfter})
	err := crash.Run(t.Context(), func(ctx context.Context, p *backuptest.Process) error {
		err := live(ctx, p)
		if lives++; lives == 1 {
			first = len(p.Effects())
		}
		if p.Crashed() && !errors.Is(err, backuptest.ErrCrashed) {
			t.Errorf("the killed process ended with %v", err)
		}
		return err
	})
	if err != nil {
		t.Fatalf("process %d: %v", lives, err)
	}
	if lives != 2 && first >= k && k > 0 {
		t.Errorf("%d processes, and the first made %d writes: want that write %d ended it", lives, first, k)
	}
	return first, lives
}
