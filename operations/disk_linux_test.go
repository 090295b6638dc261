package operations_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sheetanchor/sheetanchor/operations"
)

// mount mounts a small file system in memory, where that is allowed.
func mount(t *testing.T, options string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("a file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// O8, O2: on a disk that is full, the record stays the last one that was stored, the error says why, nothing is left
// beside it, and going on works once there is room.
func TestFileStoreFullDisk(t *testing.T) {
	t.Parallel()
	dir := mount(t, "size=64k")
	m := newMap(t, newFileStore(t, dir))
	stored := 0
	var err error
	for i := 0; err == nil && i < 10_000; i++ {
		_, err = m.Update(t.Context(), testKey, func(l *operations.List) error {
			o := op("op-" + strconv.Itoa(i))
			o.Status.Description = random(i, 400)
			return l.Add(o)
		})
		if err == nil {
			stored++
		}
	}
	if !errors.Is(err, syscall.ENOSPC) || stored == 0 {
		t.Fatalf("%d updates, then %v, want some and no space left", stored, err)
	}
	large := op("more")
	large.Status.Description = random(-1, 64<<10)
	for range 3 {
		if _, err := m.Update(t.Context(), testKey, func(l *operations.List) error { return l.Merge(large) }); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("the next Update = %v, want no space left", err)
		}
	}
	rec, err := newMap(t, newFileStoreOrOld(t, dir)).Get(t.Context(), testKey)
	if err != nil || rec.List.Len() != stored {
		t.Errorf("the record has %d operations, %v, want the %d that were stored", rec.List.Len(), err, stored)
	}
	files, err := os.ReadDir(filepath.Join(dir, "backups", "nightly"))
	if err != nil || len(files) != 1 {
		t.Errorf("beside the record there is %v, %v", files, err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=1m"); err != nil {
		t.Fatal(err)
	}
	rec, err = m.Update(t.Context(), testKey, func(l *operations.List) error { return l.Merge(large) })
	if err != nil || rec.List.Len() != stored+1 {
		t.Errorf("Update once there is room: %d operations, %v, want %d", rec.List.Len(), err, stored+1)
	}
}

// newFileStoreOrOld opens a store on a disk that may have no room for opening one.
func newFileStoreOrOld(t *testing.T, dir string) operations.Store {
	t.Helper()
	s, err := operations.NewFileStore(dir, operations.FileOptions{})
	if err == nil {
		return s
	}
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("NewFileStore on a full disk = %v, want no space left on %s", err, dir)
	}
	copied := operations.NewMemoryStore()
	data, err := os.ReadFile(filepath.Join(dir, docName))
	if err == nil {
		_, err = copied.Write(t.Context(), docName, data, "")
	}
	if err != nil {
		t.Fatal(err)
	}
	return copied
}

// random is text that cannot be compressed, the same for the same seed.
func random(seed, n int) string {
	var b strings.Builder
	x := uint64(seed)*2862933555777941757 + 3037000493
	for range n {
		x = x*6364136223846793005 + 1442695040888963407
		b.WriteByte('0' + byte(x>>58))
	}
	return b.String()
}

// O8: a store that became read-only refuses writes with a clear error, and can still be read; one that is read-only from
// the beginning does not open.
func TestFileStoreReadOnlyDisk(t *testing.T) {
	t.Parallel()
	dir := mount(t, "size=1m")
	s := newFileStore(t, dir)
	v, err := s.Write(t.Context(), docName, []byte("old"), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(t.Context(), docName, []byte("new"), v); !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), docName) {
		t.Errorf("Write = %v, want a read-only file system, naming the document", err)
	}
	if got, _, err := s.Read(t.Context(), docName); err != nil || string(got) != "old" {
		t.Errorf("Read = %q, %v, want the old document", got, err)
	}
	if _, err := operations.NewFileStore(dir, operations.FileOptions{}); !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), dir) {
		t.Errorf("NewFileStore = %v, want a read-only file system, naming the directory", err)
	}
}
