package backuptest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// driverFile is the form of [DriverOptions].File.
type driverFile struct {
	Version   int        `json:"version"`
	Snapshots []physical `json:"snapshots"`
}

const driverFileVersion = 1

// errNoDriver is the error of the zero Driver.
var errNoDriver = errors.New("driver: it was not made by NewDriver")

// Load reads the file of the options unless that is done. It returns why the file could not be read, or what is wrong with the
// options, at each call the same; a missing file is an empty storage. The zero Driver, which holds nothing, has an error, too.
func (d *Driver) Load() error {
	if d.turn == nil {
		return errNoDriver
	}
	d.turn <- struct{}{}
	defer func() { <-d.turn }()
	return d.load()
}

// load must be called with the turn.
func (d *Driver) load() error {
	d.mu.Lock()
	loaded, err := d.loaded, d.err
	d.mu.Unlock()
	if loaded {
		return err
	}
	held := newStock()
	if err = d.opts.wrong(); err == nil && d.opts.File != "" {
		held, err = readDriverFile(d.opts.File)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.loaded, d.err = true, err
	if err == nil {
		d.held = held
	}
	return err
}

func readDriverFile(name string) (stock, error) {
	held := newStock()
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return held, nil
	}
	if err != nil {
		return stock{}, fmt.Errorf("read driver file: %w", err)
	}
	var file driverFile
	if err := json.Unmarshal(data, &file); err != nil {
		return stock{}, fmt.Errorf("read driver file %s: %w", name, err)
	}
	if file.Version != driverFileVersion {
		return stock{}, fmt.Errorf("read driver file %s: version %d is not %d", name, file.Version, driverFileVersion)
	}
	for _, p := range file.Snapshots {
		held.put(p)
	}
	return held, nil
}

// writeDriverFile replaces the file by a rename, so that a reader or a crash finds the old or the new one whole.
func writeDriverFile(name string, held map[string]physical) (err error) {
	file := driverFile{Version: driverFileVersion, Snapshots: []physical{}}
	for _, key := range slices.Sorted(maps.Keys(held)) {
		file.Snapshots = append(file.Snapshots, held[key])
	}
	data, err := json.MarshalIndent(file, "", " ")
	if err != nil {
		return fmt.Errorf("write driver file %s: %w", name, err)
	}
	temp := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+".tmp") // always the same: what a kill leaves is written over
	if err = os.WriteFile(temp, data, 0o600); err == nil {
		err = os.Rename(temp, name)
	}
	if err != nil {
		return fmt.Errorf("write driver file %s: %w", name, errors.Join(err, removeIfThere(temp)))
	}
	return nil
}

func removeIfThere(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func joinClaim(claim types.NamespacedName) string {
	if claim.Name == "" {
		return ""
	}
	return claim.String()
}

func splitClaim(claim string) types.NamespacedName {
	namespace, name, _ := strings.Cut(claim, string(types.Separator))
	return types.NamespacedName{Namespace: namespace, Name: name}
}
