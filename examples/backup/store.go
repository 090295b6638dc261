package main

import (
	"fmt"
	"io"
	"os"
	"path"

	"github.com/sheetanchor/sheetanchor/operations"
)

// openStore opens the directory of the records and says where it is if the user did not.
func openStore(opts *options, stderr io.Writer) (*operations.FileStore, error) {
	if opts.store == "" {
		dir, err := os.MkdirTemp("", "sheetanchor-")
		if err != nil {
			return nil, fmt.Errorf("-store: %w", err)
		}
		opts.store = dir
		fmt.Fprintf(stderr, "records in %s\n", dir)
	}
	store, err := operations.NewFileStore(opts.store, operations.FileOptions{})
	if err != nil {
		return nil, fmt.Errorf("-store %s: %w", opts.store, err)
	}
	return store, nil
}

// files names the records of one backup, as Velero lays them out, beside our own.
type files struct{ dir, name string }

func newFiles(backup string) files { return files{dir: path.Join("backups", backup), name: backup} }

func (f files) phase() string      { return path.Join(f.dir, "sheetanchor-phase.json") }
func (f files) intents() string    { return path.Join(f.dir, "sheetanchor-freeze.json") }
func (f files) checkpoint() string { return path.Join(f.dir, "sheetanchor-finalize.json") }
func (f files) volumes() string    { return path.Join(f.dir, f.name+"-volumeinfo.json.gz") }
func (f files) results() string    { return path.Join(f.dir, f.name+"-results.gz") }
