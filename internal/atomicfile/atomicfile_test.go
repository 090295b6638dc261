package atomicfile_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/internal/atomicfile"
	"github.com/sheetanchor/sheetanchor/internal/atomicfile/crashfs"
)

const limit = 1 << 20

// O8: write, fsync, rename, fsync of the directory, in this order.
func TestWriteOrder(t *testing.T) {
	t.Parallel()
	fsys := crashfs.New()
	if err := atomicfile.Write(fsys, "/f", []byte("old")); err != nil {
		t.Fatal(err)
	}
	want := []string{"create /.f.tmp", "write /.f.tmp", "sync /.f.tmp", "close /.f.tmp", "rename /.f.tmp /f", "syncdir /"}
	if diff := cmp.Diff(want, fsys.Calls()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// O8: after a crash at any call, of the process or the machine, the file is whole, old or new; new when Write had said so.
func TestWriteCrash(t *testing.T) {
	t.Parallel()
	for stop := 0; ; stop++ {
		fsys := crashfs.New()
		if err := atomicfile.Write(fsys, "/f", []byte("old")); err != nil {
			t.Fatal(err)
		}
		fsys.StopAfter(stop)
		err := atomicfile.Write(fsys, "/f", []byte("new content"))
		for _, loss := range []crashfs.Loss{crashfs.Process, crashfs.Unsynced, crashfs.Contents} {
			after := fsys.Crash(loss)
			got, rerr := after.ReadFile("/f", limit)
			whole := string(got) == "new content" || string(got) == "old" && err != nil
			if rerr != nil || !whole {
				t.Errorf("stopped after %d calls, %s lost, Write = %v: file is %q, %v", stop, loss, err, got, rerr)
			}
			if err := atomicfile.Write(after, "/f", []byte("next")); err != nil {
				t.Errorf("stopped after %d calls, %s lost: the next Write = %v", stop, loss, err)
			}
			if files := after.Files(); !slices.Equal(files, []string{"/f"}) {
				t.Errorf("stopped after %d calls, %s lost: after the next Write there are %v", stop, loss, files)
			}
		}
		if err == nil {
			return
		}
	}
}

// O8: a call that fails leaves the old content, or says that it may not.
func TestWriteFaults(t *testing.T) {
	t.Parallel()
	errIO := errors.New("input/output error")
	for n := range 6 {
		fsys := crashfs.New()
		if err := atomicfile.Write(fsys, "/f", []byte("old")); err != nil {
			t.Fatal(err)
		}
		fsys.Fail(func(at int, _ string) error {
			if at == n {
				return errIO
			}
			return nil
		})
		err := atomicfile.Write(fsys, "/f", []byte("new"))
		if !errors.Is(err, errIO) || errors.Is(err, atomicfile.ErrUncertain) != (n >= 4) {
			t.Errorf("call %d fails: Write = %v, want uncertain from the rename on", n, err)
		}
		if got, _ := fsys.ReadFile("/f", limit); n < 5 && string(got) != "old" {
			t.Errorf("call %d fails: file is %q, want the old one", n, got)
		}
		if files := fsys.Files(); n < 4 && !slices.Equal(files, []string{"/f"}) {
			t.Errorf("call %d fails: it left %v", n, files)
		}
	}
}

// O8: directories are durable before anything is written into them.
func TestMkdirAll(t *testing.T) {
	t.Parallel()
	fsys := crashfs.New()
	for range 2 {
		fsys.Fail(nil)
		if err := atomicfile.MkdirAll(fsys, "/", "a/b"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"mkdir /a", "syncdir /", "mkdir /a/b", "syncdir /a"}, fsys.Calls()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	}
	if isDir, err := fsys.Crash(crashfs.Unsynced).IsDir("/a/b"); err != nil || !isDir {
		t.Errorf("after a crash: IsDir = %v, %v", isDir, err)
	}
	if err := atomicfile.Write(fsys, "/a/file", nil); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.MkdirAll(fsys, "/", "a/file/b"); err == nil {
		t.Error("a directory below a file was made")
	}
}

// O8: the wait for a lock ends with ctx, and with the lock's release.
func TestLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fsys := crashfs.New()
		held, err := atomicfile.Lock(t.Context(), fsys, "/l", time.Second)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		errCause := errors.New("shutting down")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errCause)
		defer cancel()
		if _, err := atomicfile.Lock(ctx, fsys, "/l", time.Second); !errors.Is(err, errCause) || time.Since(start) != time.Minute {
			t.Errorf("Lock = %v after %v, want the cause after a minute", err, time.Since(start))
		}
		time.AfterFunc(90*time.Second, func() { _ = held.Close() })
		again, err := atomicfile.Lock(t.Context(), fsys, "/l", time.Second)
		if err != nil || time.Since(start) < 150*time.Second || time.Since(start) > 151*time.Second {
			t.Errorf("Lock = %v after %v, want it within a second of the release", err, time.Since(start))
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestOS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "a", "f")
	fsys := atomicfile.OS{}
	if err := atomicfile.MkdirAll(fsys, dir, "a"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a", ".f.tmp"), []byte("left by a crash"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"one", "two"} {
		if err := atomicfile.Write(fsys, name, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := fsys.ReadFile(name, 3); err != nil || string(got) != content {
			t.Errorf("ReadFile = %q, %v, want %q", got, err, content)
		}
	}
	if _, err := fsys.ReadFile(name, 2); !errors.Is(err, atomicfile.ErrTooLarge) {
		t.Errorf("ReadFile with a limit one byte short = %v, want ErrTooLarge", err)
	}
	if _, err := fsys.ReadFile(filepath.Join(dir, "none"), 2); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ReadFile of nothing = %v, want fs.ErrNotExist", err)
	}
	if isDir, err := fsys.IsDir(name); err != nil || isDir {
		t.Errorf("IsDir of a file = %v, %v", isDir, err)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "a"))
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory holds %v, %v, want the file alone", entries, err)
	}
	lock := filepath.Join(dir, "lock")
	first, err := fsys.TryLock(lock)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fsys.TryLock(lock); !errors.Is(err, atomicfile.ErrLocked) {
		t.Errorf("TryLock of a held lock = %v, want ErrLocked", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := fsys.TryLock(lock)
	if err != nil {
		t.Fatalf("TryLock of a free lock whose file exists = %v", err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
}
