package main

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/internal/atomicfile"
)

//go:embed demo.yaml
var demo []byte

// lockStore keeps a second process from using the same embedded cluster. The lock ends with the process, however it ends.
func lockStore(dir string) (io.Closer, error) {
	lock, err := atomicfile.OS{}.TryLock(filepath.Join(dir, "cluster.lock"))
	if errors.Is(err, atomicfile.ErrLocked) {
		return nil, fmt.Errorf("-store %s: another process uses its cluster", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("-store %s: %w", dir, err)
	}
	return lock, nil
}

// startCluster starts the embedded cluster with the objects that it had when it was last used. A new one gets those of the
// user's dump, or the built-in ones, and remembers which.
func startCluster(opts options, stderr io.Writer) (*backuptest.Cluster, error) {
	data, name := demo, "demo.yaml"
	if opts.file != "" {
		var err error
		if data, err = os.ReadFile(opts.file); err != nil {
			return nil, fmt.Errorf("-f: %w", err)
		}
		name = opts.file
	}
	sum := sha256.Sum256(data)
	origin := hex.EncodeToString(sum[:])
	file, from := filepath.Join(opts.store, "cluster.json"), filepath.Join(opts.store, "cluster.from")
	known, err := os.ReadFile(from)
	switch {
	case err == nil && opts.file != "" && string(known) != origin:
		return nil, fmt.Errorf("-f %s: the cluster in -store %s was made from something else; use another -store, or leave out -f", opts.file, opts.store)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("-store %s: %w", opts.store, err)
	}
	if err != nil { // no cluster yet, or one that was not filled
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("-store %s: %w", opts.store, err)
		}
	}
	cluster, startErr := backuptest.Start(backuptest.Options{File: file})
	if startErr != nil || err == nil {
		return cluster, startErr
	}
	if err := fill(cluster, name, data, stderr); err != nil {
		cluster.Close()
		return nil, err
	}
	if err := atomicfile.Write(atomicfile.OS{}, from, []byte(origin)); err != nil {
		cluster.Close()
		return nil, fmt.Errorf("-store %s: %w", opts.store, err)
	}
	return cluster, nil
}

func fill(cluster *backuptest.Cluster, name string, data []byte, stderr io.Writer) error {
	skipped, err := cluster.Load(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("-f %s: %w", name, err)
	}
	for _, s := range skipped {
		fmt.Fprintf(stderr, "%s: skipped %s\n", name, s)
	}
	return nil
}
