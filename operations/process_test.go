package operations_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/sheetanchor/sheetanchor/operations"
)

// childEnv makes the test binary a writer: its value is "DIR NAME COUNT".
const childEnv = "SHEETANCHOR_TEST_WRITER"

// writer adds operations NAME-0 to NAME-(COUNT-1), each in an update of its own, and prints a line after each.
func writer(ctx context.Context, spec string, out io.Writer) error {
	var dir, name string
	var count int
	if _, err := fmt.Sscan(spec, &dir, &name, &count); err != nil {
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
	for i := range count {
		for {
			_, err = m.Update(ctx, testKey, func(l *operations.List) error { return l.Add(op(name + "-" + strconv.Itoa(i))) })
			if !errors.Is(err, operations.ErrConflict) {
				break
			}
			if _, err := m.Load(ctx, testKey); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, i); err != nil {
			return err
		}
	}
	return nil
}

func child(t *testing.T, dir, name string, count int) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d", childEnv, dir, name, count))
	cmd.Stderr = os.Stderr
	return cmd
}

// O7, O8, ops-17: two processes and this one write one record of one file store, and lose nothing.
func TestFileStoreProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const each = 15
	var wg sync.WaitGroup
	for _, name := range []string{"p", "q"} {
		cmd := child(t, dir, name, each)
		wg.Go(func() {
			if err := cmd.Run(); err != nil {
				t.Errorf("writer %s: %v", name, err)
			}
		})
	}
	if err := writer(t.Context(), fmt.Sprintf("%s self %d", dir, each), io.Discard); err != nil {
		t.Error(err)
	}
	wg.Wait()
	rec, err := newMap(t, newFileStore(t, dir)).Get(t.Context(), testKey)
	if err != nil || rec.List.Len() != 3*each {
		t.Errorf("the record has %d operations, %v, want %d", rec.List.Len(), err, 3*each)
	}
}

// O8: a process is killed at random moments, its lock with it; every reload is a whole record with all that it had
// been told was written, and the next process goes on.
func TestFileStoreKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 2))
	total := 0
	for round := range 8 {
		name := "round" + strconv.Itoa(round)
		cmd := child(t, dir, name, 1_000_000)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		told, line := 0, ""
		for range 1 + rng.IntN(10) {
			if _, err := fmt.Fscanln(out, &line); err != nil {
				t.Fatal(err)
			}
			told++
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		rest, _ := io.ReadAll(out)
		for _, b := range rest {
			if b == '\n' {
				told++
			}
		}
		_ = cmd.Wait() // killed
		rec, err := newMap(t, newFileStore(t, dir)).Get(t.Context(), testKey)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if got := rec.List.Len(); got < total+told || got > total+told+1 {
			t.Errorf("round %d: %d operations, want %d or one more", round, got, total+told)
		}
		total = rec.List.Len()
	}
}
