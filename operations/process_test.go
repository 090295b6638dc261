package operations_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sheetanchor/sheetanchor/internal/atomicfile"
	"github.com/sheetanchor/sheetanchor/internal/race"
	"github.com/sheetanchor/sheetanchor/operations"
)

// childEnv makes the test binary a writer: its value is "DIR NAME COUNT", or "lock PATH 0" for one that holds a lock.
const childEnv = "SHEETANCHOR_TEST_WRITER"

// writer adds operations NAME-0 to NAME-(COUNT-1), each in an update of its own, and prints a line after each.
func writer(ctx context.Context, spec string, out io.Writer) error {
	var dir, name string
	var count int
	if _, err := fmt.Sscan(spec, &dir, &name, &count); err != nil {
		return err
	}
	if dir == "lock" {
		return holder(name, out)
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

// O8: processes are killed at random moments, hundreds of times, their locks with them; every reload is a whole record
// with all that they had been told was written, and the next process goes on.
func TestFileStoreKill(t *testing.T) {
	t.Parallel()
	const lanes = 8
	rounds := 25
	if testing.Short() || race.Enabled {
		rounds = 5
	}
	var kills atomic.Int64
	t.Run("lanes", func(t *testing.T) {
		for lane := range lanes {
			t.Run(strconv.Itoa(lane), func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(1, uint64(lane)))
				dir, total := t.TempDir(), 0
				for round := range rounds {
					told := killed(t, child(t, dir, "round"+strconv.Itoa(round), 1_000_000), rng)
					kills.Add(1)
					rec, err := newMap(t, newFileStore(t, dir)).Get(t.Context(), testKey)
					if err != nil {
						t.Fatalf("round %d: %v", round, err)
					}
					if got := rec.List.Len(); got < total+told || got > total+told+1 {
						t.Fatalf("round %d: %d operations, want %d or one more", round, got, total+told)
					}
					total = rec.List.Len()
				}
			})
		}
	})
	if got := kills.Load(); got != int64(lanes*rounds) {
		t.Errorf("%d processes were killed, want %d", got, lanes*rounds)
	}
}

// killed kills a writer at a random moment and returns how many updates it had been told were written.
func killed(t *testing.T, cmd *exec.Cmd, rng *rand.Rand) (told int) {
	t.Helper()
	out := started(t, cmd)
	line := ""
	for range 1 + rng.IntN(4) {
		if _, err := fmt.Fscanln(out, &line); err != nil {
			t.Fatal(err)
		}
		told++
	}
	for range rng.IntN(20_000) { // somewhere in the next update
		runtime.Gosched()
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(out)
	_ = cmd.Wait() // killed
	return told + bytes.Count(rest, []byte("\n"))
}

// started starts a process and returns what it prints.
func started(t *testing.T, cmd *exec.Cmd) io.Reader {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return out
}

// O8: the lock of a process that is killed while it holds it is free, without anybody cleaning up.
func TestFileStoreLockHolderKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newFileStore(t, dir)
	v, err := s.Write(t.Context(), docName, []byte("old"), "")
	if err != nil {
		t.Fatal(err)
	}
	lock := lockOf(t, dir)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=lock "+lock+" 0")
	cmd.Stderr = os.Stderr
	out := started(t, cmd)
	line := ""
	if _, err := fmt.Fscanln(out, &line); err != nil || line != "held" {
		t.Fatalf("the holder says %q, %v", line, err)
	}
	if _, err := (atomicfile.OS{}).TryLock(lock); !errors.Is(err, atomicfile.ErrLocked) {
		t.Fatalf("TryLock beside the holder = %v, want ErrLocked", err)
	}
	done := make(chan error)
	go func() {
		_, err := s.Write(t.Context(), docName, []byte("new"), v)
		done <- err
	}()
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // killed
	if err := <-done; err != nil {
		t.Errorf("Write after the holder was killed = %v", err)
	}
}

// lockOf returns the lock of the one document of a store.
func lockOf(t *testing.T, dir string) string {
	t.Helper()
	locks, err := filepath.Glob(filepath.Join(dir, ".locks", strings.Repeat("?", 64)))
	if err != nil || len(locks) != 1 {
		t.Fatalf("locks = %v, %v, want one", locks, err)
	}
	return locks[0]
}

// holder takes a lock, says so, and keeps it until its process ends.
func holder(lock string, out io.Writer) error {
	held, err := atomicfile.OS{}.TryLock(lock)
	if err != nil {
		return err
	}
	defer func() { _ = held.Close() }()
	if _, err := fmt.Fprintln(out, "held"); err != nil {
		return err
	}
	_, err = io.ReadAll(neverEnds{}) // until the kill
	return err
}

// neverEnds blocks whoever reads it, in a way that a process can be in without the runtime calling it a deadlock.
type neverEnds struct{}

func (neverEnds) Read([]byte) (int, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer func() { _ = w.Close() }()
	return r.Read(make([]byte, 1))
}
