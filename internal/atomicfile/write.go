package atomicfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"
)

// ErrUncertain says that it is not known whether the new content will be there after a crash.
var ErrUncertain = errors.New("file may have been replaced")

// Write replaces the content of the file in an existing directory. Its temporary file has the same name with a dot
// before and ".tmp" after it; one that a crash left there is removed first.
func Write(fsys FS, name string, data []byte) error {
	dir, base := filepath.Split(name)
	tmp := filepath.Join(dir, "."+base+".tmp")
	if err := writeTemp(fsys, tmp, data); err != nil {
		return err
	}
	if err := fsys.Rename(tmp, name); err != nil {
		return fmt.Errorf("%w: %w", ErrUncertain, err)
	}
	if err := fsys.SyncDir(filepath.Clean(dir)); err != nil {
		return fmt.Errorf("%w: sync directory: %w", ErrUncertain, err)
	}
	return nil
}

// writeTemp leaves a durable file tmp, or none.
func writeTemp(fsys FS, tmp string, data []byte) error {
	f, err := fsys.Create(tmp)
	if errors.Is(err, fs.ErrExist) {
		if err := fsys.Remove(tmp); err != nil {
			return err
		}
		f, err = fsys.Create(tmp)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, fsys.Remove(tmp))
	}
	return nil
}

// MkdirAll makes the directory root/sub and what is missing between the two, and makes the names of all of them
// durable, whoever made them. root must exist; sub is a relative path.
func MkdirAll(fsys FS, root, sub string) error {
	if sub == "." || sub == "" {
		return nil
	}
	parent := filepath.Dir(sub)
	if err := MkdirAll(fsys, root, parent); err != nil {
		return err
	}
	if err := fsys.Mkdir(filepath.Join(root, sub)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return fsys.SyncDir(filepath.Join(root, parent))
}

// Lock takes the lock as soon as it is free, asking every interval, or returns the cause of ctx's end.
func Lock(ctx context.Context, fsys FS, name string, interval time.Duration) (io.Closer, error) {
	var timer *time.Timer
	for {
		held, err := fsys.TryLock(name)
		if !errors.Is(err, ErrLocked) {
			return held, err
		}
		if timer == nil {
			timer = time.NewTimer(interval)
			defer timer.Stop()
		} else {
			timer.Reset(interval)
		}
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for lock %s: %w", name, context.Cause(ctx))
		}
	}
}
