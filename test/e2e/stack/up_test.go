package stack_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sheetanchor/sheetanchor/test/e2e/stack"
)

func TestUpRefusesOptions(t *testing.T) {
	t.Parallel()
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "notes"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	held := t.TempDir()
	if err := os.WriteFile(filepath.Join(held, "state.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for reason, tc := range map[string]struct {
		opts stack.Options
		want []string
	}{
		"flags of what does not exist, and no etcd": {
			stack.Options{Flags: map[string][]string{"scheduler": nil}, Without: []string{stack.Etcd, "proxy"}},
			[]string{`"scheduler"`, `"proxy"`, "a stack needs etcd"},
		},
		"a path too long for sockets": {stack.Options{Dir: filepath.Join(full, strings.Repeat("x", 80))}, []string{"more than 80"}},
		"a directory with a file":     {stack.Options{Dir: full}, []string{"not empty", "notes", "no stack"}},
		"a directory with a stack":    {stack.Options{Dir: held}, []string{held + " holds a stack", "go down"}},
	} {
		tc.opts.Bin = t.TempDir()
		_, err := stack.Up(t.Context(), tc.opts)
		if err == nil {
			t.Errorf("%s: Up succeeded", reason)
			continue
		}
		for _, want := range tc.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %q lacks %q", reason, err, want)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(full, "notes")); err != nil {
		t.Errorf("the file in the directory: %v", err)
	}
}

// A stack in a temporary directory is refused, too, when its sockets' paths would be too long, before anything is built.
func TestUpWithLongTempDir(t *testing.T) {
	long := filepath.Join(t.TempDir(), "a-directory-for-temporary-files-with-a-name-that-is-long")
	t.Setenv("TMPDIR", long)
	t.Setenv(stack.EnvDir, filepath.Join(t.TempDir(), "gone")) // a variable that outlived its stack
	cache := filepath.Join(t.TempDir(), "cache")
	t.Setenv(stack.EnvCache, cache)
	if _, err := stack.Up(t.Context(), stack.Options{}); err == nil || !strings.Contains(err.Error(), long) || !strings.Contains(err.Error(), "more than 80") {
		t.Errorf("Up = %v, want that a directory in %s is too long", err, long)
	}
	if _, err := os.Stat(cache); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Stat of the cache of programs = %v, want that nothing was built", err)
	}
}

func TestUpThatFailsLeavesNothing(t *testing.T) {
	dir := freshDir(t)
	_, err := stack.Up(t.Context(), stack.Options{
		Dir: dir, Bin: programs(t), Flags: map[string][]string{stack.APIServer: {"--no-such-flag"}},
	})
	unhealthy, ok := errors.AsType[*stack.UnhealthyError](err)
	if !ok || unhealthy.Component != stack.APIServer || !strings.Contains(err.Error(), "unknown flag: --no-such-flag") {
		t.Errorf("Up = %v, want the API server's UnhealthyError and its log", err)
	}
	nothingLeft(t, dir)
}

func TestUpThatIsCanceledLeavesNothing(t *testing.T) {
	dir := freshDir(t)
	cause := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Second, cause) // etcd and the driver run then
	defer cancel()
	if _, err := stack.Up(ctx, stack.Options{Dir: dir, Bin: programs(t)}); !errors.Is(err, cause) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Up = %v, want the cause", err)
	}
	nothingLeft(t, dir)
}

// nothingLeft looks for the directory, and for processes that name it in their flags.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Stat(%s) = %v, want none", dir, err)
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range lines {
		if line, err := os.ReadFile(name); err == nil && strings.Contains(string(line), dir) {
			t.Errorf("a process is left: %q", strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
}

func TestUpWithout(t *testing.T) {
	s := up(t, stack.Options{Without: []string{stack.Snapshotter, stack.ControllerManager}, Fsync: true, KeepData: true})
	t.Cleanup(func() {
		if err := os.RemoveAll(s.Dir()); err != nil {
			t.Error(err)
		}
	})
	if got := status(t, s, stack.Snapshotter); got.State != stack.Stopped || got.PID != 0 {
		t.Errorf("what was left out is %+v", got)
	}
	if err := s.Start(t.Context(), stack.Snapshotter); err != nil {
		t.Fatal(err)
	}
	if got := status(t, s, stack.Snapshotter); got.State != stack.Running || got.Memory == 0 {
		t.Errorf("after Start it is %+v", got)
	}
	log, err := os.ReadFile(s.LogPath(stack.Etcd))
	if err != nil || !strings.Contains(string(log), "--data-dir") || strings.Contains(string(log), "unsafe-no-fsync") {
		t.Errorf("etcd does not write durably, %v: %s", err, log)
	}
	if err := s.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.LogPath(stack.Etcd)); err != nil {
		t.Errorf("the log of a stack that keeps its data: %v", err)
	}
}

// A test that is killed cannot end its stack.
func TestDownEndsStacksInItsDirectory(t *testing.T) {
	outer := up(t, stack.Options{Without: stack.Components()[2:]})
	inner := up(t, stack.Options{Dir: filepath.Join(outer.Dir(), "inner"), Without: stack.Components()[2:], KeepData: true})
	if err := outer.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, outer.Dir())
	if err := inner.Down(t.Context()); err != nil {
		t.Errorf("Down of a stack that went with another = %v, want nil", err)
	}
}

func TestBuiltMissing(t *testing.T) {
	t.Parallel()
	if bin, err := stack.Built(t.Context(), stack.BuildOptions{Cache: t.TempDir()}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Built with an empty cache = %q, %v, want fs.ErrNotExist", bin, err)
	}
	if _, err := stack.Build(t.Context(), stack.BuildOptions{Module: t.TempDir()}); err == nil {
		t.Error("Build of an empty module succeeded")
	}
}
