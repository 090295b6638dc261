package operations_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/operations"
)

// pollerEnv makes the test binary a poller: its value is "DIR STATE".
const pollerEnv = "SHEETANCHOR_TEST_POLLER"

// opinion is an action that says, of each operation at some time, that it ended as State: two processes with different
// opinions disagree on everything.
type opinion struct{ state operations.State }

func (o opinion) Progress(context.Context, string) (operations.Progress, error) {
	if rand.IntN(8) > 0 {
		return operations.Progress{State: operations.StateRunning, Completed: rand.Int64N(1000)}, nil
	}
	return operations.Progress{State: o.state}, nil
}

func (o opinion) Cancel(context.Context, string) error { return nil }

// pollerProcess polls until nothing runs, and prints how operations ended as its hook was told.
func pollerProcess(ctx context.Context, spec string, out io.Writer) error {
	var dir, state string
	if _, err := fmt.Sscan(spec, &dir, &state); err != nil {
		return err
	}
	store, err := operations.NewFileStore(dir, operations.FileOptions{LockInterval: time.Millisecond})
	if err != nil {
		return err
	}
	m, err := operations.NewMap(store, operations.BackupForm, operations.MapOptions{})
	if err != nil {
		return err
	}
	p, err := operations.NewPoller(m, map[string]operations.Action{"test": opinion{operations.State(state)}}, operations.PollerOptions{
		Fast: 5 * time.Millisecond, Slow: 20 * time.Millisecond, WriteInterval: 5 * time.Millisecond, ReadInterval: 20 * time.Millisecond,
		Jitter: 1,
		Hooks: operations.PollerHooks{Changed: func(_ context.Context, _ operations.Key, o operations.Operation) {
			if o.Status.Phase.IsTerminal() {
				_, _ = fmt.Fprintln(out, o.ID, o.Status.Phase)
			}
		}},
	})
	if err != nil {
		return err
	}
	_, err = p.Run(ctx, testKey)
	return err
}

// O6, O9, ops-7: two processes poll one record of a file store and disagree about every operation; the first end that is
// stored is the end for both, and none is told otherwise.
func TestPollerProcesses(t *testing.T) {
	t.Parallel()
	const n = 12
	dir := t.TempDir()
	mustUpdate(t, newMap(t, newFileStore(t, dir)), testKey, func(l *operations.List) error {
		for i := range n {
			if err := l.Add(op(fmt.Sprint("op", i))); err != nil {
				return err
			}
		}
		return nil
	})
	states := []operations.State{operations.StateCompleted, operations.StateFailed, operations.StateCanceled}
	told := make([]map[string]operations.Phase, len(states))
	var wg sync.WaitGroup
	for i, state := range states {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s", pollerEnv, dir, state))
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("poller of %s: %v", state, err)
			}
			told[i] = map[string]operations.Phase{}
			var id string
			var phase operations.Phase
			for r := bytes.NewReader(out); ; {
				if _, err := fmt.Fscanln(r, &id, &phase); err != nil {
					break
				}
				if old, twice := told[i][id]; twice {
					t.Errorf("poller of %s was told that %s ended as %s and then as %s", state, id, old, phase)
				}
				told[i][id] = phase
			}
		})
	}
	wg.Wait()
	rec, err := newMap(t, newFileStore(t, dir)).Get(t.Context(), testKey)
	if err != nil || rec.Summary().Running > 0 || rec.List.Len() != n {
		t.Fatalf("the record has %+v, %v, want %d operations that have ended", rec.Summary(), err, n)
	}
	stored := map[string]operations.Phase{}
	for o := range rec.List.All() {
		stored[o.ID] = o.Status.Phase
	}
	for i, state := range states {
		seen := maps.Clone(stored) // a process that came late is told nothing of what had ended before
		maps.DeleteFunc(seen, func(id string, _ operations.Phase) bool { _, ok := told[i][id]; return !ok })
		if diff := cmp.Diff(seen, told[i]); diff != "" {
			t.Errorf("poller of %s was told other ends than are stored (-stored +told):\n%s", state, diff)
		}
	}
}
