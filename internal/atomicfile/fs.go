package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// ErrTooLarge is returned by [FS.ReadFile] for a file of more bytes than asked for.
var ErrTooLarge = errors.New("file too large")

// ErrLocked is returned by [FS.TryLock] while somebody else holds the lock.
var ErrLocked = errors.New("file is locked")

// FS is what writing a file atomically needs of a file system. [OS] is the real one; tests record and break the calls.
type FS interface {
	// IsDir reports whether there is a directory of that name; an error that is fs.ErrNotExist says that there is nothing.
	IsDir(name string) (bool, error)
	// Mkdir makes one directory; an existing one is an error that is fs.ErrExist.
	Mkdir(dir string) error
	// ReadFile returns the file's content, [ErrTooLarge] when it has more than limit bytes.
	ReadFile(name string, limit int64) ([]byte, error)
	// Create makes a new file for writing; an existing one is an error that is fs.ErrExist.
	Create(name string) (File, error)
	// Rename replaces newName by oldName in one step.
	Rename(oldName, newName string) error
	// Remove removes a file.
	Remove(name string) error
	// SyncDir makes the names in a directory durable.
	SyncDir(dir string) error
	// TryLock takes an exclusive lock on the file, which is made if it is missing, or returns [ErrLocked] at once. The
	// lock is held until the result is closed, or the process ends however it ends.
	TryLock(name string) (io.Closer, error)
}

// File is an open file that is written.
type File interface {
	io.WriteCloser
	// Sync makes what was written durable.
	Sync() error
}

// Permissions of what is made: the records may name what is in a cluster.
const (
	dirMode  = 0o700
	fileMode = 0o600
)

// OS is the file system of the operating system.
type OS struct{}

var _ FS = OS{}

// IsDir implements [FS].
func (OS) IsDir(name string) (bool, error) {
	info, err := os.Stat(name)
	if err != nil {
		return false, err
	}
	return info.IsDir(), nil
}

// Mkdir implements [FS].
func (OS) Mkdir(dir string) error { return os.Mkdir(dir, dirMode) }

// ReadFile implements [FS].
func (OS) ReadFile(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if int64(len(data)) > limit {
		data, err = nil, fmt.Errorf("read %s: %w: more than %d bytes", name, ErrTooLarge, limit)
	}
	return data, errors.Join(err, f.Close())
}

// Create implements [FS].
func (OS) Create(name string) (File, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Rename implements [FS].
func (OS) Rename(oldName, newName string) error { return os.Rename(oldName, newName) }

// Remove implements [FS].
func (OS) Remove(name string) error { return os.Remove(name) }

// SyncDir implements [FS].
func (OS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
