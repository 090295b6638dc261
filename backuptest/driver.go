package backuptest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// DriverOptions configure a [Driver]. The zero value is a driver in memory named [DefaultDriver].
type DriverOptions struct {
	// Names are the CSI driver names it serves, for clusters whose classes name several. Defaults to [DefaultDriver].
	Names []string
	// File keeps what the storage holds, so that it survives the process. It is written beside itself and renamed before a call
	// is answered. A missing file is an empty storage. Empty: memory only.
	File string
	// Clock tells the time by which cuts are made and snapshots get ready; it must run as time.Now does, which is the default.
	Clock func() time.Time
}

// Driver is a fake storage system behind CSI calls. Like a real one it is idempotent by the name of a snapshot, does not forget
// a snapshot whose caller went away, and knows nothing of Kubernetes. Make it with [NewDriver]; it may be used by several
// goroutines, and by several controllers one after the other. Two drivers on one file at the same time lose updates.
type Driver struct {
	opts DriverOptions
	turn chan struct{} // holds one value while a change is made, so that waiting for it honours ctx

	mu     sync.Mutex // guards what follows
	loaded bool
	err    error // why the options or the file cannot be used
	held   stock
}

// physical is one snapshot as the storage and its file know it.
type physical struct {
	Name         string     `json:"name"`
	Handle       string     `json:"handle"`
	VolumeHandle string     `json:"volumeHandle"`
	Claim        string     `json:"claim,omitempty"`
	Driver       string     `json:"driver,omitempty"`
	Size         int64      `json:"size"`
	Calls        int        `json:"calls"` // CreateSnapshot calls so far
	Started      *time.Time `json:"started,omitempty"`
	CutAt        time.Time  `json:"cutAt,omitzero"`
	ReadyAt      time.Time  `json:"readyAt,omitzero"`
	Refusals     int        `json:"refusals,omitempty"` // DeleteSnapshot calls refused so far
}

func (p physical) cut(now time.Time) bool   { return p.Started != nil && !now.Before(p.CutAt) }
func (p physical) ready(now time.Time) bool { return p.Started != nil && !now.Before(p.ReadyAt) }

// StoredSnapshot is a snapshot that the storage holds.
type StoredSnapshot struct {
	Name         string               // the name of the CreateSnapshot call, such as "snapshot-UID"
	Handle       string               // what the API calls snapshotHandle
	VolumeHandle string               // the volume it was taken of
	Claim        types.NamespacedName // the claim of that volume; zero if the caller did not say
	Driver       string               // the driver name it was taken through
	Size         int64                // bytes
	CutAt        time.Time
	ReadyToUse   bool
}

// NewDriver returns a driver. A file of opts is read at the first use: [Driver.Load] tells whether it could be, and whether opts are
// wrong.
func NewDriver(opts DriverOptions) *Driver {
	opts.Names = slices.Clone(opts.Names)
	if len(opts.Names) == 0 {
		opts.Names = []string{DefaultDriver}
	}
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	return &Driver{opts: opts, turn: make(chan struct{}, 1), held: newStock()}
}

// Serves reports whether the driver answers to that CSI driver name.
func (d *Driver) Serves(name string) bool { return slices.Contains(d.opts.Names, name) }

// Snapshots returns the snapshots that the storage holds, sorted by name. One whose cut is not over yet is not there. It is
// empty if the file could not be read or the options are wrong, which [Driver.Load] tells.
func (d *Driver) Snapshots() []StoredSnapshot {
	if d.Load() != nil {
		return nil
	}
	now := d.opts.Clock()
	d.mu.Lock()
	defer d.mu.Unlock()
	var snapshots []StoredSnapshot
	for _, p := range d.held.byName {
		if p.cut(now) {
			snapshots = append(snapshots, p.stored(now))
		}
	}
	slices.SortFunc(snapshots, func(a, b StoredSnapshot) int { return cmp.Compare(a.Name, b.Name) })
	return snapshots
}

// CreateRequest is a CSI CreateSnapshot call, with the behaviour that a test wants of the storage.
type CreateRequest struct {
	Name         string // names the snapshot: a second call with it takes no second snapshot
	VolumeHandle string
	Claim        types.NamespacedName
	Driver       string // empty: the driver's first name
	Size         int64  // bytes; 0: 1 GiB
	Script       Script // the zero value cuts at once and is ready at once
}

// CreateSnapshot takes a snapshot and returns when it is cut, which may be before it is ready. A name that the storage knows is
// continued, not taken again, and asked for again tells whether it is ready.
//
// # Errors
//
// A [*DriverError] while the script has errors left; one with code InvalidArgument for a request without name or volume handle,
// with a negative size or with a wrong script, and with code AlreadyExists for a name that was used with another volume. The
// cause of ctx when it ends before the cut, which goes on without the caller. Else the error of [Driver.Load].
func (d *Driver) CreateSnapshot(ctx context.Context, req CreateRequest) (StoredSnapshot, error) {
	p, err := d.begin(ctx, req)
	if err != nil {
		return StoredSnapshot{}, err
	}
	if err := wait(ctx, p.CutAt.Sub(d.opts.Clock())); err != nil {
		return StoredSnapshot{}, fmt.Errorf("create snapshot %q: %w", req.Name, err)
	}
	return p.stored(d.opts.Clock()), nil
}

// begin records the call, and the start of the cut unless the script has an error for it.
func (d *Driver) begin(ctx context.Context, req CreateRequest) (physical, error) {
	if req.Name == "" || req.VolumeHandle == "" {
		return physical{}, &DriverError{Code: "InvalidArgument", Text: "snapshot name and source volume must be given"}
	}
	if d.turn == nil {
		return physical{}, errNoDriver
	}
	if err := errors.Join(negative("Size", req.Size), within("field Script", req.Script.wrong())); err != nil {
		return physical{}, &DriverError{Code: "InvalidArgument", Text: oneLine(err)}
	}
	var result physical
	var refused error
	now := d.opts.Clock()
	err := d.change(ctx, func(held stock) bool {
		p, known := held.byName[req.Name]
		if known && p.VolumeHandle != req.VolumeHandle {
			refused = &DriverError{Code: "AlreadyExists", Text: "snapshot " + req.Name + " exists with another source volume"}
			return false
		}
		if known && p.Started != nil {
			result = p
			return false
		}
		if !known {
			p = physical{
				Name: req.Name, Handle: "snap-" + string(UIDOf("physical", "", req.Name)), VolumeHandle: req.VolumeHandle,
				Claim: joinClaim(req.Claim), Driver: orString(req.Driver, d.opts.Names[0]), Size: cmp.Or(req.Size, 1<<30),
			}
		}
		p.Calls++
		if failure := req.Script.errorAt(p.Calls); failure != nil {
			refused = failure
		} else {
			p.Started, p.CutAt = &now, now.Add(req.Script.CutAfter)
			p.ReadyAt = p.CutAt.Add(req.Script.ReadyAfter)
		}
		held.put(p)
		result = p
		return true
	})
	return result, errors.Join(err, refused)
}

// DeleteSnapshot deletes the snapshot with that handle; one that the storage does not hold is deleted already. Script may
// refuse it, with its DeleteErrors.
//
// # Errors
//
// A [*DriverError] of the script, the cause of ctx, or the error of the file.
func (d *Driver) DeleteSnapshot(ctx context.Context, handle string, script Script) error {
	var refused error
	err := d.change(ctx, func(held stock) bool {
		p, known := held.withHandle(handle)
		if !known {
			return false
		}
		p.Refusals++
		if refused = scriptedError(script.DeleteErrors, p.Refusals); refused != nil {
			held.put(p)
		} else {
			held.remove(p)
		}
		return true
	})
	return errors.Join(err, refused)
}

// Snapshot returns the snapshot with that handle, and whether the storage holds it, as ListSnapshots does for one handle.
func (d *Driver) Snapshot(handle string) (StoredSnapshot, bool) {
	if d.Load() != nil {
		return StoredSnapshot{}, false
	}
	now := d.opts.Clock()
	d.mu.Lock()
	defer d.mu.Unlock()
	p, known := d.held.withHandle(handle)
	if !known || !p.cut(now) {
		return StoredSnapshot{}, false
	}
	return p.stored(now), true
}

// claimOf returns the claim of a snapshot by its name, whether it is cut or not; zero if there was no call for it.
func (d *Driver) claimOf(name string) types.NamespacedName {
	d.mu.Lock()
	defer d.mu.Unlock()
	return splitClaim(d.held.byName[name].Claim)
}

// change runs edit on what is held. With a file it is a copy, which is kept in the file, if edit reports a change, before anyone
// sees it.
func (d *Driver) change(ctx context.Context, edit func(stock) bool) error {
	if d.turn == nil {
		return errNoDriver
	}
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return fmt.Errorf("wait for the storage: %w", context.Cause(ctx))
	}
	if err := d.load(); err != nil {
		return err
	}
	d.mu.Lock()
	if d.opts.File == "" {
		defer d.mu.Unlock()
		edit(d.held)
		return nil
	}
	held := d.held.clone()
	d.mu.Unlock()
	if !edit(held) {
		return nil
	}
	if err := writeDriverFile(d.opts.File, held.byName); err != nil {
		return err
	}
	d.mu.Lock()
	d.held = held
	d.mu.Unlock()
	return nil
}

func (p physical) stored(now time.Time) StoredSnapshot {
	return StoredSnapshot{
		Name: p.Name, Handle: p.Handle, VolumeHandle: p.VolumeHandle, Claim: splitClaim(p.Claim), Driver: p.Driver,
		Size: p.Size, CutAt: p.CutAt, ReadyToUse: p.ready(now),
	}
}
