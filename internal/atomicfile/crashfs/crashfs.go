// Package crashfs is a file system in memory that forgets at a crash what was not made durable, for tests of what must
// survive one.
package crashfs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/sheetanchor/sheetanchor/internal/atomicfile"
)

// ErrStopped is what every call returns once the machine has stopped.
var ErrStopped = errors.New("machine stopped")

// Loss says what a crash takes away.
type Loss string

// The kinds of loss.
const (
	// Process is the end of a process: nothing is lost.
	Process Loss = "process"
	// Unsynced is the loss of everything that was not made durable: names and contents.
	Unsynced Loss = "unsynced"
	// Contents is the loss of contents that were not made durable, while all names are kept.
	Contents Loss = "contents"
)

// FS is the file system. Its root directory is "/". It is safe for concurrent use.
type FS struct {
	mu     sync.Mutex // protects everything below
	root   *node
	locked map[string]bool
	calls  []string
	stop   int // the number of calls after which the machine stops; negative: never
	fault  func(n int, call string) error
}

// node is a file or directory: what it holds now, and what of that is durable.
type node struct {
	dir           map[string]*node // nil for a file
	durableDir    map[string]*node
	data, durable []byte
}

func newDir() *node { return &node{dir: map[string]*node{}, durableDir: map[string]*node{}} }

var _ atomicfile.FS = (*FS)(nil)

// New returns an empty file system that never stops.
func New() *FS { return &FS{root: newDir(), locked: map[string]bool{}, stop: -1} }

// StopAfter lets the machine stop after n more calls have been done.
func (f *FS) StopAfter(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls, f.stop = nil, n
}

// Fail asks fault before each call, with the number of the call since now and what it is; an error is returned instead
// of doing the call.
func (f *FS) Fail(fault func(n int, call string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls, f.fault = nil, fault
}

// Calls returns the calls done since the last StopAfter or Fail.
func (f *FS) Calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

// Crash returns what a restart finds.
func (f *FS) Crash(loss Loss) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	after := New()
	after.root = f.root.after(loss)
	return after
}

func (n *node) after(loss Loss) *node {
	if n.dir == nil {
		data := n.durable
		if loss == Process {
			data = n.data
		}
		return &node{data: slices.Clone(data), durable: slices.Clone(data)}
	}
	names := n.dir
	if loss == Unsynced {
		names = n.durableDir
	}
	out := newDir()
	for name, child := range names {
		out.dir[name] = child.after(loss)
	}
	out.durableDir = maps.Clone(out.dir)
	return out
}

// Files returns the paths of all files.
func (f *FS) Files() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	var walk func(path string, n *node)
	walk = func(path string, n *node) {
		if n.dir == nil {
			out = append(out, path)
		}
		for _, name := range slices.Sorted(maps.Keys(n.dir)) {
			walk(path+"/"+name, n.dir[name])
		}
	}
	walk("", f.root)
	return out
}

// begin counts a call, and refuses it when the machine has stopped. The caller holds mu.
func (f *FS) begin(verb, name string) error {
	call := verb + " " + name
	if f.stop >= 0 && len(f.calls) >= f.stop {
		return ErrStopped
	}
	f.calls = append(f.calls, call)
	if f.fault != nil {
		return f.fault(len(f.calls)-1, call)
	}
	return nil
}

// find returns the directory a path is in, and the node itself, nil when it is not there.
func (f *FS) find(path string) (parent, n *node, base string, err error) {
	n = f.root
	for part := range strings.SplitSeq(strings.Trim(filepath.ToSlash(path), "/"), "/") {
		if part == "" {
			continue
		}
		if n == nil || n.dir == nil {
			return nil, nil, "", fmt.Errorf("%s: %w", path, fs.ErrNotExist)
		}
		parent, base = n, part
		n = n.dir[part]
	}
	return parent, n, base, nil
}

// IsDir implements [atomicfile.FS].
func (f *FS) IsDir(name string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, n, _, err := f.find(name)
	if err != nil || n == nil {
		return false, fmt.Errorf("stat %s: %w", name, fs.ErrNotExist)
	}
	return n.dir != nil, nil
}

// Mkdir implements [atomicfile.FS].
func (f *FS) Mkdir(dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin("mkdir", dir); err != nil {
		return err
	}
	parent, n, base, err := f.find(dir)
	if err != nil {
		return err
	}
	if n != nil {
		return fmt.Errorf("mkdir %s: %w", dir, fs.ErrExist)
	}
	parent.dir[base] = newDir()
	return nil
}

// ReadFile implements [atomicfile.FS].
func (f *FS) ReadFile(name string, limit int64) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin("read", name); err != nil {
		return nil, err
	}
	_, n, _, err := f.find(name)
	switch {
	case err != nil:
		return nil, err
	case n == nil:
		return nil, fmt.Errorf("read %s: %w", name, fs.ErrNotExist)
	case int64(len(n.data)) > limit:
		return nil, fmt.Errorf("read %s: %w", name, atomicfile.ErrTooLarge)
	}
	return slices.Clone(n.data), nil
}

// Create implements [atomicfile.FS].
func (f *FS) Create(name string) (atomicfile.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin("create", name); err != nil {
		return nil, err
	}
	parent, n, base, err := f.find(name)
	if err != nil {
		return nil, err
	}
	if n != nil {
		return nil, fmt.Errorf("create %s: %w", name, fs.ErrExist)
	}
	n = &node{}
	parent.dir[base] = n
	return &file{fs: f, name: name, node: n}, nil
}

// Rename implements [atomicfile.FS].
func (f *FS) Rename(oldName, newName string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin("rename", oldName+" "+newName); err != nil {
		return err
	}
	from, n, base, err := f.find(oldName)
	if err != nil || n == nil {
		return fmt.Errorf("rename %s: %w", oldName, fs.ErrNotExist)
	}
	to, _, newBase, err := f.find(newName)
	if err != nil {
		return err
	}
	delete(from.dir, base)
	to.dir[newBase] = n
	return nil
}

// Remove implements [atomicfile.FS].
func (f *FS) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin("remove", name); err != nil {
		return err
	}
	parent, n, base, err := f.find(name)
	if err != nil || n == nil {
		return fmt.Errorf("remove %s: %w", name, fs.ErrNotExist)
	}
	delete(parent.dir, base)
	return nil
}

// SyncDir implements [atomicfile.FS].
func (f *FS) SyncDir(dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin("syncdir", dir); err != nil {
		return err
	}
	_, n, _, err := f.find(dir)
	if err != nil || n == nil {
		return fmt.Errorf("sync %s: %w", dir, fs.ErrNotExist)
	}
	n.durableDir = maps.Clone(n.dir)
	return nil
}
