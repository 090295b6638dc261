package main

import (
	"fmt"
	"io"
	"os"
	"path"

	"github.com/sheetanchor/sheetanchor/operations"
)

// openStore opens the directory of the records, a new temporary one if the user named none. It says where that is, and
// done removes it again if nothing is to be kept.
func openStore(opts *options, stderr io.Writer) (store *operations.FileStore, done func() error, err error) {
	done = func() error { return nil }
	if opts.store == "" {
		dir, err := os.MkdirTemp("", "sheetanchor-")
		if err != nil {
			return nil, done, fmt.Errorf("-store: %w", err)
		}
		opts.store = dir
		if opts.plan {
			done = func() error { return os.RemoveAll(dir) }
		} else {
			fmt.Fprintf(stderr, "records in %s\n", dir)
		}
	}
	store, err = operations.NewFileStore(opts.store, operations.FileOptions{})
	if err != nil {
		return nil, done, fmt.Errorf("-store %s: %w", opts.store, err)
	}
	return store, done, nil
}

// files names the records of one backup, as Velero lays them out, beside our own.
type files struct{ dir, name string }

func newFiles(backup string) files { return files{dir: path.Join("backups", backup), name: backup} }

func (f files) phase() string      { return path.Join(f.dir, "sheetanchor-phase.json") }
func (f files) intents() string    { return path.Join(f.dir, "sheetanchor-freeze.json") }
func (f files) checkpoint() string { return path.Join(f.dir, "sheetanchor-finalize.json") }
func (f files) volumes() string    { return path.Join(f.dir, f.name+"-volumeinfo.json.gz") }
func (f files) results() string    { return path.Join(f.dir, f.name+"-results.gz") }
