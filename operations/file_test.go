package operations_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/internal/atomicfile"
	"github.com/sheetanchor/sheetanchor/internal/atomicfile/crashfs"
	"github.com/sheetanchor/sheetanchor/operations"
)

const docName = "backups/nightly/nightly-itemoperations.json.gz"

func newFileStore(t *testing.T, dir string) *operations.FileStore {
	t.Helper()
	s, err := operations.NewFileStore(dir, operations.FileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func crashStore(t *testing.T, fsys *crashfs.FS) *operations.FileStore {
	t.Helper()
	s, err := operations.NewFileStoreFS("/store", operations.FileOptions{}, fsys)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// O8: the order of the calls for the first write of a document and for the next.
func TestFileStoreOrder(t *testing.T) {
	t.Parallel()
	fsys := crashfs.New()
	s := crashStore(t, fsys)
	fsys.Fail(nil)
	v, err := s.Write(t.Context(), docName, []byte("one"), "")
	if err != nil {
		t.Fatal(err)
	}
	first := fsys.Calls()
	fsys.Fail(nil)
	if _, err := s.Write(t.Context(), docName, []byte("two"), v); err != nil {
		t.Fatal(err)
	}
	lock := strings.Fields(first[0])[1]
	if !strings.HasPrefix(lock, "/store/.locks/") {
		t.Errorf("the lock is %s, want a file of its own below .locks", lock)
	}
	const dir, file, tmp = "/store/backups/nightly", "/store/" + docName, "/store/backups/nightly/.nightly-itemoperations.json.gz.tmp"
	mkdir := []string{"mkdir /store/backups", "syncdir /store", "mkdir " + dir, "syncdir /store/backups"}
	write := []string{"create " + tmp, "write " + tmp, "sync " + tmp, "close " + tmp, "rename " + tmp + " " + file, "syncdir " + dir}
	head, tail := []string{"lock " + lock, "read " + file}, []string{"unlock " + lock}
	if diff := cmp.Diff(slices.Concat(head, mkdir, write, tail), first); diff != "" {
		t.Errorf("first write (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(slices.Concat(head, write, tail), fsys.Calls()); diff != "" {
		t.Errorf("next write (-want +got):\n%s", diff)
	}
}

// O8: after a crash at any call, of the process or the machine, a map finds the whole old record or the whole new one,
// the new one when it had been told so, and can go on.
func TestFileStoreCrash(t *testing.T) {
	t.Parallel()
	for _, created := range []bool{false, true} {
		for stop := 0; ; stop++ {
			fsys := crashfs.New()
			m := newMap(t, crashStore(t, fsys))
			if created {
				mustUpdate(t, m, testKey, func(l *operations.List) error { return l.Add(op("old")) })
			}
			fsys.StopAfter(stop)
			_, err := m.Update(t.Context(), testKey, func(l *operations.List) error { return l.Add(op("new")) })
			for _, loss := range []crashfs.Loss{crashfs.Process, crashfs.Unsynced, crashfs.Contents} {
				checkRestart(t, fsys.Crash(loss), created, err == nil)
			}
			if err == nil {
				break
			}
		}
	}
}

func checkRestart(t *testing.T, fsys *crashfs.FS, old, written bool) {
	t.Helper()
	m := newMap(t, crashStore(t, fsys))
	rec, err := m.Get(t.Context(), testKey)
	if err != nil {
		t.Errorf("after a crash: %v\n%v", err, fsys.Files())
		return
	}
	_, hasOld := rec.List.Get("old")
	_, hasNew := rec.List.Get("new")
	if hasOld != old || written && !hasNew {
		t.Errorf("after a crash: old %v, new %v; want old %v, and new if it was written: %v", hasOld, hasNew, old, written)
	}
	mustUpdate(t, m, testKey, func(l *operations.List) error { return l.Merge(op("next")) })
}

// O8, O2: when a call of the file system fails, the caller knows whether the record may have changed, and going on works.
func TestFileStoreFaults(t *testing.T) {
	t.Parallel()
	errFull := errors.New("no space left on device")
	for n := range 9 { // lock, read, create, write, sync, close, rename, syncdir, unlock
		fsys := crashfs.New()
		s := crashStore(t, fsys)
		v, err := s.Write(t.Context(), docName, []byte("old"), "")
		if err != nil {
			t.Fatal(err)
		}
		fsys.Fail(func(at int, _ string) error {
			if at == n {
				return errFull
			}
			return nil
		})
		_, err = s.Write(t.Context(), docName, []byte("new"), v)
		if !errors.Is(err, errFull) || errors.Is(err, operations.ErrUnknownOutcome) != (n >= 6) {
			t.Errorf("call %d fails: Write = %v, want an unknown outcome from the rename on", n, err)
		}
		fsys.Fail(nil)
		got, version, err := s.Read(t.Context(), docName)
		if err != nil || string(got) != "old" && (string(got) != "new" || n < 6) {
			t.Errorf("call %d fails: the document is %q, %v", n, got, err)
		}
		if _, err := s.Write(t.Context(), docName, []byte("next"), version); err != nil {
			t.Errorf("call %d fails: the next Write = %v", n, err)
		}
	}
}

// O8: the wait for a lock that another process holds ends with ctx, and delays no other document.
func TestFileStoreLockHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := newFileStore(t, dir)
		v, err := s.Write(t.Context(), docName, []byte("old"), "")
		if err != nil {
			t.Fatal(err)
		}
		held, err := atomicfile.OS{}.TryLock(lockOf(t, dir))
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errAny)
		defer cancel()
		if _, err := s.Write(ctx, docName, []byte("new"), v); !errors.Is(err, errAny) || time.Since(start) != time.Minute {
			t.Errorf("Write = %v after %v, want the end of its ctx", err, time.Since(start))
		}
		if _, err := s.Write(t.Context(), "other/doc", []byte("x"), ""); err != nil || time.Since(start) != time.Minute {
			t.Errorf("Write of another document = %v after %v, want it at once", err, time.Since(start))
		}
		if got, _, err := s.Read(t.Context(), docName); err != nil || string(got) != "old" {
			t.Errorf("Read beside a held lock = %q, %v, want the old document", got, err)
		}
		if err := held.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Write(t.Context(), docName, []byte("new"), v); err != nil {
			t.Errorf("Write after the release = %v", err)
		}
	})
}

// O8: a directory that somebody removed is made again.
func TestFileStoreDirRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newFileStore(t, dir)
	for range 2 {
		if _, err := s.Write(t.Context(), docName, []byte("x"), ""); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(dir, "backups")); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNewFileStoreRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	readOnly := func(_ int, call string) error {
		if strings.HasPrefix(call, "create") || strings.HasPrefix(call, "mkdir") {
			return os.ErrPermission
		}
		return nil
	}
	noFlock := func(_ int, call string) error {
		if strings.HasPrefix(call, "lock") {
			return errors.ErrUnsupported
		}
		return nil
	}
	broken := func(fault func(int, string) error) func() error {
		return func() error {
			fsys := crashfs.New()
			fsys.Fail(fault)
			return second(operations.NewFileStoreFS("/deep/store", operations.FileOptions{}, fsys))
		}
	}
	tests := map[string]struct {
		open func() error
		text string
		want error
	}{
		"a file": {open: func() error { return second(operations.NewFileStore(file, operations.FileOptions{})) }, text: file + " is not a directory"},
		"below it": {open: func() error {
			return second(operations.NewFileStore(filepath.Join(file, "x"), operations.FileOptions{}))
		}, text: filepath.Join(file, "x")},
		"no name":   {open: func() error { return second(operations.NewFileStore("", operations.FileOptions{})) }, text: "no directory"},
		"read-only": {open: broken(readOnly), text: "/deep/store", want: os.ErrPermission},
		"no flock":  {open: broken(noFlock), text: "/deep/store", want: errors.ErrUnsupported},
		"bad options": {open: func() error {
			return second(operations.NewFileStore(dir, operations.FileOptions{LockInterval: -1, MaxBytes: -1}))
		}, text: "LockInterval is negative\noption MaxBytes"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := tc.open()
			if err == nil || !strings.Contains(err.Error(), tc.text) || tc.want != nil && !errors.Is(err, tc.want) {
				t.Errorf("NewFileStore = %v, want %v with %q", err, tc.want, tc.text)
			}
		})
	}
	if _, err := operations.NewFileStore(filepath.Join(dir, "a", "b", "c"), operations.FileOptions{}); err != nil {
		t.Errorf("NewFileStore of a directory to be made = %v", err)
	}
}

// O13: a file of any size is not read whole.
func TestFileStoreSizeLimit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := operations.NewFileStore(dir, operations.FileOptions{MaxBytes: 10})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(t.Context(), "doc", bytes.Repeat([]byte("x"), 11), ""); !errors.Is(err, operations.ErrTooLarge) {
		t.Errorf("Write of 11 bytes = %v, want ErrTooLarge", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "doc"), bytes.Repeat([]byte("x"), 11), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Read(t.Context(), "doc"); !errors.Is(err, operations.ErrTooLarge) {
		t.Errorf("Read of 11 bytes = %v, want ErrTooLarge", err)
	}
	if _, err := s.Write(t.Context(), "doc", []byte("x"), ""); !errors.Is(err, operations.ErrTooLarge) {
		t.Errorf("Write over 11 bytes = %v, want ErrTooLarge: what cannot be read is not overwritten", err)
	}
}

// O6, O8: a store that is gone, or not mounted, does not say that there is no document.
func TestFileStoreIsGone(t *testing.T) {
	t.Parallel()
	for name, remake := range map[string]bool{"removed": false, "an empty directory is left": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			store := newFileStore(t, dir)
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			if remake {
				if err := os.Mkdir(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			_, _, err := store.Read(t.Context(), "a/doc")
			if err == nil || errors.Is(err, operations.ErrNotFound) || !contains(err, dir+" is gone") {
				t.Errorf("Read() = %v, want an error that names the directory, not ErrNotFound", err)
			}
			if _, err := store.Write(t.Context(), "a/doc", nil, ""); err == nil && !remake {
				t.Error("Write() into a store that is gone succeeded")
			}
			m := newMap(t, store)
			if sum, err := m.Complete(t.Context(), testKey); err == nil {
				t.Errorf("Complete() = %+v, want an error", sum)
			}
		})
	}
}

// O4: every name that a key can have is one that the store can keep.
func TestFileStoreLongNames(t *testing.T) {
	t.Parallel()
	store := newFileStore(t, t.TempDir())
	names := map[string]operations.Key{}
	for n := 190; n <= 253; n++ {
		name := strings.Repeat(strings.Repeat("a", 59)+".", 5)[:n-1] + "b"
		key := operations.Key{Namespace: "app", Name: name, UID: testKey.UID}
		if err := key.Validate(); err != nil {
			t.Fatal(err)
		}
		names[name] = key
		mustUpdate(t, newMap(t, store), key, func(l *operations.List) error { return l.Add(op(name)) })
	}
	for name, key := range names {
		rec, err := newMap(t, store).Get(t.Context(), key)
		if _, ok := rec.List.Get(name); err != nil || !ok || rec.List.Len() != 1 {
			t.Errorf("a name of %d characters: %d operations, %v", len(name), rec.List.Len(), err)
		}
	}
}
