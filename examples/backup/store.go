package main

import (
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/sheetanchor/sheetanchor/operations"
)

// openStore opens the directory of the records, a new temporary one if the user named none.
func openStore(opts *options) (*operations.FileStore, error) {
	if opts.store == "" {
		dir, err := os.MkdirTemp("", "sheetanchor-")
		if err != nil {
			return nil, fmt.Errorf("-store: %w", err)
		}
		opts.store, opts.temporary = dir, true
	}
	store, err := operations.NewFileStore(opts.store, operations.FileOptions{})
	if err != nil {
		return nil, fmt.Errorf("-store %s: %w", opts.store, err)
	}
	return store, nil
}

// tidyStore tells where the records are if the user could not know, or removes the temporary directory if it has none.
func tidyStore(opts options, stderr io.Writer) error {
	if !opts.temporary {
		return nil
	}
	if _, err := os.Stat(filepath.Join(opts.store, "backups")); err != nil {
		return os.RemoveAll(opts.store)
	}
	fmt.Fprintf(stderr, "records in %s\n", opts.store)
	return nil
}

// files names the records of one backup, as Velero lays them out, beside our own.
type files struct{ dir, name string }

func newFiles(backup string) files { return files{dir: path.Join("backups", backup), name: backup} }

func (f files) phase() string      { return path.Join(f.dir, "sheetanchor-phase.json") }
func (f files) intents() string    { return path.Join(f.dir, "sheetanchor-freeze.json") }
func (f files) checkpoint() string { return path.Join(f.dir, "sheetanchor-finalize.json") }
func (f files) volumes() string    { return path.Join(f.dir, f.name+"-volumeinfo.json.gz") }
func (f files) results() string    { return path.Join(f.dir, f.name+"-results.gz") }
