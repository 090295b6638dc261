package operations

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sheetanchor/sheetanchor/internal/atomicfile"
)

// lockDir holds one lock file for each document ever written.
const lockDir = ".locks"

// FileOptions are the options of a [FileStore]. The zero FileOptions work.
type FileOptions struct {
	// LockInterval is how often a lock that somebody else holds is tried. Defaults to 10 ms.
	LockInterval time.Duration
	// MaxBytes is the size from which a file is refused with [ErrTooLarge]. Defaults to [DefaultMaxBytes].
	MaxBytes int64
}

// FileStore is a [Store] in a directory of a local file system: one file for each document. After a crash at any
// moment, of the process or of the machine, a document is whole, old or new. Its conditions hold between processes too,
// by flock on files of their own in the directory ".locks", which must stay while a process uses the store: without it
// the store is gone, and reading a document is an error, not [ErrNotFound]. A document with an element of its name longer
// than 220 bytes stands in the directory ".long" under a hash of the name. A version is a hash of the content. It is safe
// for concurrent use.
type FileStore struct {
	dir  string
	opts FileOptions
	fs   atomicfile.FS

	mu   sync.Mutex          // protects made
	made map[string]struct{} // directories that are known to be durable
}

var _ Remover = (*FileStore)(nil)

// NewFileStore returns a store in dir, which is made if it is missing. It returns an error that names dir when that is
// a file or cannot be written, and one that is [errors.ErrUnsupported] on a platform without flock.
func NewFileStore(dir string, opts FileOptions) (*FileStore, error) {
	return newFileStore(dir, opts, atomicfile.OS{})
}

func newFileStore(dir string, opts FileOptions, fsys atomicfile.FS) (*FileStore, error) {
	if err := opts.complete(); err != nil {
		return nil, fmt.Errorf("file store: %w", err)
	}
	if dir == "" {
		return nil, errors.New("file store: no directory given")
	}
	s := &FileStore{dir: filepath.Clean(dir), opts: opts, fs: fsys, made: map[string]struct{}{}}
	if isDir, err := fsys.IsDir(s.dir); err == nil && !isDir {
		return nil, fmt.Errorf("file store: %s is not a directory", s.dir)
	}
	if err := s.probe(); err != nil {
		return nil, fmt.Errorf("file store: directory %s cannot be used: %w", s.dir, err)
	}
	return s, nil
}

func (o *FileOptions) complete() error {
	var faults []error
	if o.LockInterval < 0 {
		faults = append(faults, errors.New("option LockInterval is negative"))
	}
	if o.MaxBytes < 0 || o.MaxBytes == math.MaxInt64 {
		faults = append(faults, errors.New("option MaxBytes is out of range"))
	}
	if o.LockInterval == 0 {
		o.LockInterval = 10 * time.Millisecond
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	return errors.Join(faults...)
}

// probe makes the directories, takes a lock and writes a file, so that what cannot work fails early.
func (s *FileStore) probe() error {
	root, sub := s.dir, "."
	for {
		if _, err := s.fs.IsDir(root); !errors.Is(err, fs.ErrNotExist) || filepath.Dir(root) == root {
			break
		}
		sub, root = filepath.Join(filepath.Base(root), sub), filepath.Dir(root)
	}
	if err := atomicfile.MkdirAll(s.fs, root, filepath.Join(sub, lockDir)); err != nil {
		return err
	}
	name := filepath.Join(s.dir, lockDir, "probe")
	held, err := s.fs.TryLock(name)
	switch {
	case errors.Is(err, atomicfile.ErrLocked): // somebody else is just starting: it works
		return nil
	case err != nil:
		return err
	}
	return errors.Join(atomicfile.Write(s.fs, name+"ed", nil), held.Close())
}

// check returns an error when there can be no such call.
func (s *FileStore) check(ctx context.Context, verb, name string) error {
	if isNil(s) {
		return fmt.Errorf("%s %s: %w", verb, name, errNotMade)
	}
	return checkCall(ctx, verb, name)
}

// Capabilities implements [Store]: both.
func (s *FileStore) Capabilities() Capabilities {
	return Capabilities{ConditionalCreate: true, ConditionalReplace: true}
}

// Read implements [Store].
func (s *FileStore) Read(ctx context.Context, name string) (data []byte, version string, err error) {
	if err := s.check(ctx, "read", name); err != nil {
		return nil, "", err
	}
	data, err = s.fs.ReadFile(s.path(name), s.opts.MaxBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := s.present(); err != nil {
			return nil, "", fmt.Errorf("read %s: %w", name, err)
		}
		return nil, "", fmt.Errorf("read %s: %w", name, ErrNotFound)
	case errors.Is(err, atomicfile.ErrTooLarge):
		return nil, "", fmt.Errorf("read %s: %w: %w", name, ErrTooLarge, err)
	case err != nil:
		return nil, "", fmt.Errorf("read %s: %w", name, err)
	}
	return data, hash(data), nil
}

// present returns an error when the store itself is gone, as a directory that is not mounted any more: then nobody knows
// which documents there are.
func (s *FileStore) present() error {
	if isDir, err := s.fs.IsDir(filepath.Join(s.dir, lockDir)); err != nil || !isDir {
		return fmt.Errorf("file store %s is gone: it has no directory %s (%w)", s.dir, lockDir, cmp.Or(err, fs.ErrInvalid))
	}
	return nil
}

// Write implements [Store].
func (s *FileStore) Write(ctx context.Context, name string, data []byte, old string) (version string, err error) {
	if err := s.check(ctx, "write", name); err != nil {
		return "", err
	}
	if int64(len(data)) > s.opts.MaxBytes {
		return "", fmt.Errorf("write %s: %w: more than %d bytes", name, ErrTooLarge, s.opts.MaxBytes)
	}
	if err := s.locked(ctx, name, func() error { return s.replace(ctx, name, data, old) }); err != nil {
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	return hash(data), nil
}

// Remove implements [Remover]. The directory of the document and its lock stay.
func (s *FileStore) Remove(ctx context.Context, name, old string) error {
	if err := s.check(ctx, "remove", name); err != nil {
		return err
	}
	err := s.locked(ctx, name, func() error {
		switch _, current, err := s.Read(ctx, name); {
		case err != nil:
			return err
		case current != old:
			return ErrConflict
		}
		if err := s.fs.Remove(s.path(name)); err != nil {
			return err
		}
		if err := s.fs.SyncDir(filepath.Dir(s.path(name))); err != nil {
			return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

// locked calls fn with the lock of the document.
func (s *FileStore) locked(ctx context.Context, name string, fn func() error) error {
	held, err := atomicfile.Lock(ctx, s.fs, s.lockPath(name), s.opts.LockInterval)
	if err != nil {
		return err
	}
	err = fn()
	if cerr := held.Close(); cerr != nil && err == nil {
		err = fmt.Errorf("%w: unlock: %w", ErrUnknownOutcome, cerr)
	}
	return err
}

// replace writes the document if it is the one that old names. The caller holds its lock.
func (s *FileStore) replace(ctx context.Context, name string, data []byte, old string) error {
	_, current, err := s.Read(ctx, name)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if current != old {
		return ErrConflict
	}
	sub := filepath.Dir(relative(name))
	known := s.isMade(sub)
	if !known {
		if err := s.makeDir(sub); err != nil {
			return err
		}
	}
	err = atomicfile.Write(s.fs, s.path(name), data)
	if known && errors.Is(err, fs.ErrNotExist) && !errors.Is(err, atomicfile.ErrUncertain) { // somebody removed it
		if err := s.makeDir(sub); err != nil {
			return err
		}
		err = atomicfile.Write(s.fs, s.path(name), data)
	}
	if errors.Is(err, atomicfile.ErrUncertain) {
		return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
	}
	return err
}

// isMade reports whether this store has made the directory durable before.
func (s *FileStore) isMade(sub string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.made[sub]
	return ok
}

// makeDir makes a directory below the store's, and the names on the way to it durable.
func (s *FileStore) makeDir(sub string) error {
	if err := atomicfile.MkdirAll(s.fs, s.dir, sub); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made[sub] = struct{}{}
	return nil
}

func (s *FileStore) path(name string) string {
	return filepath.Join(s.dir, relative(name))
}

// longDir holds the documents whose names have elements that are too long for a file name, under a hash of the name.
const longDir = ".long"

// maxElement is the longest element that becomes a file name as it is: file systems allow 255 bytes, of which a
// temporary file beside it needs some.
const maxElement = 220

// relative returns the path of a document below the store's directory.
func relative(name string) string {
	for element := range strings.SplitSeq(name, "/") {
		if len(element) > maxElement {
			return filepath.Join(longDir, hash([]byte(name)))
		}
	}
	return filepath.FromSlash(name)
}

func (s *FileStore) lockPath(name string) string {
	return filepath.Join(s.dir, lockDir, hash([]byte(name)))
}

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
