package stack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"

	"github.com/sheetanchor/sheetanchor/internal/atomicfile"
)

// BuildOptions says what is built from where. The zero value is right inside the module.
type BuildOptions struct {
	// Module is the directory of the module test/e2e. Empty means the module that the working directory is in.
	Module string
	// Cache is the directory that is built into. Empty means $SHEETANCHOR_E2E_CACHE, and when that is empty too,
	// sheetanchor/e2e in the user's cache directory.
	Cache string
}

// lockPoll is how often a lock that somebody else holds is asked for.
const lockPoll = 50 * time.Millisecond

// Build builds the programs that are missing and returns the directory with all of them. Programs of others are built
// once for their versions, the Go version and the flags; our own are built each time, which the go command does only
// when their sources changed. Builders that run at the same time wait for each other. It returns the errors of the go
// command with its output, of the file system, and ctx's.
func Build(ctx context.Context, opts BuildOptions) (bin string, err error) {
	b, err := newBuilder(ctx, opts)
	if err != nil {
		return "", err
	}
	for _, g := range b.groups {
		if err := b.ensure(ctx, g); err != nil {
			return "", err
		}
	}
	return b.bin, b.own(ctx)
}

// Built returns what [Build] would return, if that needed to build no program of others; else it returns
// [fs.ErrNotExist] wrapped. Tests that must not build for minutes ask it.
func Built(ctx context.Context, opts BuildOptions) (bin string, err error) {
	b, err := newBuilder(ctx, opts)
	if err != nil {
		return "", err
	}
	for _, g := range b.groups {
		if !isDir(b.dir(g)) {
			return "", fmt.Errorf("programs of %s: %w", g.dir, fs.ErrNotExist)
		}
	}
	return b.bin, b.own(ctx)
}

// builder is a build whose versions are known.
type builder struct {
	module, cache, bin string
	groups             []group
}

func newBuilder(ctx context.Context, opts BuildOptions) (*builder, error) {
	b := &builder{module: opts.Module, cache: opts.Cache}
	var err error
	if b.module == "" {
		if b.module, err = findModule(); err != nil {
			return nil, err
		}
	}
	if b.cache == "" {
		b.cache = os.Getenv(EnvCache)
	}
	if b.cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("cache of built programs: %w; set %s", err, EnvCache)
		}
		b.cache = filepath.Join(user, "sheetanchor", "e2e")
	}
	if b.cache, err = filepath.Abs(b.cache); err != nil {
		return nil, err
	}
	if b.groups, err = newGroups(ctx, b.module); err != nil {
		return nil, err
	}
	stamps := []string{b.module}
	for _, g := range b.groups {
		stamps = append(stamps, g.stamp)
	}
	b.bin = filepath.Join(b.cache, "bin-"+stampOf(stamps...))
	return b, os.MkdirAll(b.cache, 0o700)
}

func (b *builder) dir(g group) string { return filepath.Join(b.cache, g.name+"-"+g.stamp) }

// ensure builds a group whose directory is missing. The directory appears whole or not at all.
func (b *builder) ensure(ctx context.Context, g group) (err error) {
	dir := b.dir(g)
	if isDir(dir) {
		return nil
	}
	logger := logr.FromContextOrDiscard(ctx)
	unlock, err := b.lock(ctx, "lock-"+g.name+"-"+g.stamp)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if isDir(dir) {
		return nil
	}
	logger.Info("building", "programs", len(g.programs), "dir", dir)
	temp := filepath.Join(b.cache, ".new-"+g.name+"-"+g.stamp)
	if err := os.RemoveAll(temp); err != nil { // what a killed builder left
		return err
	}
	if err := os.Mkdir(temp, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	start := time.Now()
	if err := g.build(ctx, filepath.Join(temp, g.name)); err != nil {
		return fmt.Errorf("build in %s: %w", g.dir, err)
	}
	logger.Info("built", "programs", len(g.programs), "seconds", seconds(start))
	return os.Rename(filepath.Join(temp, g.name), dir)
}

// own fills the directory of all programs: hard links to the groups' files, and our own programs.
func (b *builder) own(ctx context.Context) (err error) {
	unlock, err := b.lock(ctx, filepath.Base(b.bin)+".lock")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	scratch := filepath.Join(b.bin, ".own")
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return err
	}
	for _, g := range b.groups {
		if err := linkTree(b.dir(g), b.bin); err != nil {
			return err
		}
	}
	if err := goRun(ctx, b.module, "build", "-buildvcs=false", "-o", scratch+string(filepath.Separator), "./cmd/driver", "./cmd/kubelet"); err != nil {
		return fmt.Errorf("build our own programs: %w", err)
	}
	return linkTree(scratch, b.bin)
}

// lock excludes other builders, of this program and of others, from what name stands for.
func (b *builder) lock(ctx context.Context, name string) (unlock func() error, err error) {
	held, err := atomicfile.Lock(ctx, atomicfile.OS{}, filepath.Join(b.cache, name), lockPoll)
	if err != nil {
		return nil, fmt.Errorf("wait for another build: %w", err)
	}
	return held.Close, nil
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// linkTree makes each file of from appear in to by a hard link, replacing another one of the same name at once, so
// that a program that runs is never written to.
func linkTree(from, to string) error {
	return filepath.WalkDir(from, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if entry.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		return replaceByLink(name, target)
	})
}

func replaceByLink(name, target string) error {
	source, err := os.Stat(name)
	if err != nil {
		return err
	}
	if old, err := os.Stat(target); err == nil && os.SameFile(source, old) {
		return nil
	}
	temp := target + ".new"
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Link(name, temp); err != nil {
		return err
	}
	return os.Rename(temp, target)
}
