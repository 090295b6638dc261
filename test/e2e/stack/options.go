package stack

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// DriverName is the name of the CSI driver of every stack; OtherDriverName is a name that no driver answers to.
const (
	DriverName      = "csi.e2e.sheetanchor.io"
	OtherDriverName = "other.e2e.sheetanchor.io"
)

// The classes of every stack, of [DriverName] unless said otherwise.
const (
	StorageClass        = "e2e"        // the default class; claims are bound at once
	SnapshotClass       = "e2e"        // the default class; deleting a snapshot deletes it at the driver
	RetainSnapshotClass = "e2e-retain" // deleting a snapshot keeps it at the driver
	OtherSnapshotClass  = "e2e-other"  // of OtherDriverName: nobody takes such a snapshot
	GroupSnapshotClass  = "e2e"        // of VolumeGroupSnapshots
)

// NodeName is the name of the only node of every stack, whose kubelet is the stub.
const NodeName = "e2e-node"

// EnvDir names the environment variable with the directory of the running stack that tests use, EnvCache the one with
// the directory that programs are built into.
const (
	EnvDir   = "SHEETANCHOR_E2E"
	EnvCache = "SHEETANCHOR_E2E_CACHE"
)

// maxDir is how long a stack's directory may be: the path of a socket has at most 107 bytes.
const maxDir = 80

// Options says how a stack runs. The zero value is a stack in a new temporary directory, of programs that [Build]
// builds when they are missing.
type Options struct {
	// Dir is the directory of the stack, of at most 80 bytes when absolute, since it holds sockets. It must not exist,
	// or be empty. Empty means a new directory: in the one of the stack that $SHEETANCHOR_E2E names, so that both end
	// together, and in the system's directory for temporary files when that names none.
	Dir string
	// Bin is the directory with the programs. Empty means what Build returns.
	Bin string
	// Flags are extra flags by component. They come after the stack's own, so that they win.
	Flags map[string][]string
	// Fsync makes etcd write durably, as tests of crashes need it. It is slower.
	Fsync bool
	// Without names components that are not started; [Stack.Start] starts them later. It must not name etcd or
	// kube-apiserver, without which nothing can be installed.
	Without []string
	// KeepData leaves the directory in place when the stack goes down.
	KeepData bool
}

// validate joins all that is wrong, so that nothing is built or made for options that cannot work.
func (o Options) validate() error {
	var errs []error
	for _, name := range slices.Concat(slices.Sorted(maps.Keys(o.Flags)), o.Without) {
		if _, err := find(name); err != nil {
			errs = append(errs, fmt.Errorf("options: %w", err))
		}
	}
	for _, name := range []string{Etcd, APIServer} {
		if slices.Contains(o.Without, name) {
			errs = append(errs, fmt.Errorf("options: Without: a stack needs %s", name))
		}
	}
	if _, err := o.place(); err != nil {
		errs = append(errs, fmt.Errorf("options: Dir: %w", err))
	}
	return errors.Join(errs...)
}

// place returns the absolute path of Dir or, when that is empty, of the directory to make a temporary one in.
func (o Options) place() (string, error) {
	if o.Dir == "" {
		parent, err := filepath.Abs(tempParent())
		if err != nil {
			return "", err
		}
		if longest := len(parent) + len("/"+tempPrefix) + tempSuffix; longest > maxDir {
			return "", fmt.Errorf("a directory in %s, the one for temporary files, has %d bytes, more than %d", parent, longest, maxDir)
		}
		return parent, nil
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return "", err
	}
	if len(dir) > maxDir {
		return "", fmt.Errorf("%s has %d bytes, more than %d", dir, len(dir), maxDir)
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return dir, nil
	}
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == stateFile }) {
		return "", fmt.Errorf("%s holds a stack, which must go down before: %w", dir, fs.ErrExist)
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("%s is not empty, it holds %s and no stack: %w", dir, entries[0].Name(), fs.ErrExist)
	}
	return dir, nil
}

// A temporary directory's name is this and at most so many digits.
const (
	tempPrefix = "sheetanchor-e2e-"
	tempSuffix = 10
)

// tempParent is the running stack's directory, if there is one: the variable may outlive its stack.
func tempParent() string {
	if running := os.Getenv(EnvDir); running != "" {
		if _, err := readLayout(running); err == nil {
			return running
		}
	}
	return os.TempDir()
}

// makeDir makes the directory and returns its absolute path.
func (o Options) makeDir() (string, error) {
	dir, err := o.place()
	if err != nil {
		return "", fmt.Errorf("options: Dir: %w", err)
	}
	if o.Dir == "" {
		return os.MkdirTemp(dir, tempPrefix)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o700)
}
