package crashfs

import (
	"io"
	"slices"

	"github.com/sheetanchor/sheetanchor/internal/atomicfile"
)

// TryLock implements [atomicfile.FS]. Locks are not files here, and a crash frees them.
func (f *FS) TryLock(name string) (io.Closer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin("lock", name); err != nil {
		return nil, err
	}
	if f.locked[name] {
		return nil, atomicfile.ErrLocked
	}
	f.locked[name] = true
	return &lock{fs: f, name: name}, nil
}

type lock struct {
	fs   *FS
	name string
}

func (l *lock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	delete(l.fs.locked, l.name)
	return l.fs.begin("unlock", l.name)
}

type file struct {
	fs   *FS
	name string
	node *node
}

// Write writes half of the data when it fails.
func (f *file) Write(data []byte) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	n := len(data)
	err := f.fs.begin("write", f.name)
	if err != nil {
		n /= 2
	}
	f.node.data = append(f.node.data, data[:n]...)
	return n, err
}

func (f *file) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.fs.begin("sync", f.name); err != nil {
		return err
	}
	f.node.durable = slices.Clone(f.node.data)
	return nil
}

func (f *file) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return f.fs.begin("close", f.name)
}
