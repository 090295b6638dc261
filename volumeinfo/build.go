package volumeinfo

import (
	"cmp"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Build makes one record for each volume of in, sorted by volume, and a sorted list of what the records could not hold.
// It is pure: the order of the inputs does not matter, nothing of them is changed or shared, and no absent field is a
// mistake. The work is linear in the inputs.
//
// Things are matched by UID where both sides have one, else by name. A claim that has no snapshot and is not in Skips is
// recorded as failed, also one that no snapshot can be taken of. The result of a snapshot is its operation's; without an
// operation it is succeeded once the snapshot is ready and has a handle, and not final before. A snapshot whose claim is not
// among the inputs still gets a record.
func Build(in Inputs) ([]BackupRecord, []Gap) {
	records, gaps, _ := build(in)
	return records, gaps
}

// none is no index.
const none = -1

type builder struct {
	in      Inputs
	t       *tables
	records []BackupRecord
	gaps    []Gap

	// What belongs together. Each is found for all before the next is looked for: one table after the other stays in the
	// processor's cache.
	pvs       []*PV      // by claim, nil without one
	contents  []*Content // by snapshot, nil without one
	worked    []int      // by snapshot: the index of its operation, or none
	snapshots []int      // by claim: the index of its snapshot, or none
	skips     []int      // by claim: the index of its skip, or none
	used      []bool     // by operation: whether it went into a record
}

func build(in Inputs) (records []BackupRecord, gaps []Gap, visits int) {
	in = sorted(in)
	b := &builder{records: make([]BackupRecord, 0, len(in.Records)+len(in.Claims))}
	in.Claims = b.distinct(in.Claims)
	b.snapshots, b.skips = slices.Repeat([]int{none}, len(in.Claims)), slices.Repeat([]int{none}, len(in.Claims))
	b.used = make([]bool, len(in.Operations))
	b.in, b.t = in, newTables(in)
	b.pvs, b.contents, b.worked = each(in.Claims, b.t.pv), each(in.Snapshots, b.t.content), each(in.Snapshots, b.t.operation)
	b.own()
	b.assignSkips()
	orphans := b.assignSnapshots()
	b.claims()
	for _, i := range orphans {
		s := in.Snapshots[i]
		c := Claim{Namespace: s.Namespace, Name: deref(s.Claim), UID: s.ClaimUID}
		b.record(c, b.t.pv(&c), nil, i)
	}
	b.operations()
	return inOrder(b.records, byVolume), sortGaps(b.gaps), b.t.visits
}

// own takes the caller's records; the second one of a volume is a gap.
func (b *builder) own() {
	seen := make(map[VolumeID]bool, len(b.in.Records))
	for _, r := range b.in.Records {
		if v := r.Volume(); v != (VolumeID{}) && seen[v] {
			b.gap(v, "record", Duplicate)
			continue
		}
		seen[r.Volume()] = true
		b.records = append(b.records, r)
	}
}

// assignSkips gives each skip to its claim, and a record of its own to one of no claim.
func (b *builder) assignSkips() {
	for i, s := range b.in.Skips {
		v := VolumeID{Namespace: s.Namespace, Claim: s.Claim, ClaimUID: s.ClaimUID, PV: s.PV}
		c, ok, _ := b.t.claim(s.Namespace, s.Claim, s.ClaimUID)
		if !ok && s.Claim == "" && s.PV != "" {
			if pv := at(b.t, b.in.PVs, b.t.pvsByName[s.PV], has(b.t.pvsByName, s.PV)); pv != nil {
				c, ok, _ = b.t.claim(pv.ClaimNamespace, pv.ClaimName, pv.ClaimUID)
			}
		}
		switch {
		case !ok && b.t.readyFor(v), ok && b.skips[c] != none:
			b.gap(v, "skip", Duplicate)
		case ok:
			b.skips[c] = i
		default:
			b.records = append(b.records, BackupRecord{
				PVCNamespace: s.Namespace, PVCName: s.Claim, PVCUID: s.ClaimUID, PVName: s.PV, Skipped: true, SkippedReason: orUnknown(s.Reason),
			})
		}
	}
}

// assignSnapshots gives each snapshot to its claim, the best of several, and returns those whose claim is gone.
func (b *builder) assignSnapshots() (orphans []int) {
	for i := range b.in.Snapshots {
		s := &b.in.Snapshots[i]
		v := VolumeID{Namespace: s.Namespace, Claim: deref(s.Claim), ClaimUID: s.ClaimUID}
		c, ok, recreated := b.t.claim(s.Namespace, deref(s.Claim), s.ClaimUID)
		if ok {
			v = VolumeID{Namespace: b.in.Claims[c].Namespace, Claim: b.in.Claims[c].Name, ClaimUID: b.in.Claims[c].UID}
		}
		previous := none
		if ok {
			previous = b.snapshots[c]
		}
		switch {
		case b.in.Owner != "" && s.OwnerUID != b.in.Owner:
			b.gap(v, s.name(), ForeignOwner)
		case !ok && recreated:
			b.gap(v, s.name(), Recreated)
		case !ok && b.t.readyFor(v):
			b.gap(v, s.name(), Duplicate)
		case !ok:
			b.gap(v, s.name(), NoClaim)
			orphans = append(orphans, i)
		case previous != none && (b.handle(previous) != "" || b.handle(i) == ""):
			b.gap(v, s.name(), Duplicate)
		case previous != none:
			b.gap(v, b.in.Snapshots[previous].name(), Duplicate)
			b.snapshots[c] = i
		default:
			b.snapshots[c] = i
		}
	}
	return orphans
}

func (b *builder) claims() {
	for i, c := range b.in.Claims {
		v := VolumeID{Namespace: c.Namespace, Claim: c.Name, ClaimUID: c.UID, PV: c.PV}
		s := b.snapshots[i]
		if b.t.readyFor(v) {
			if s != none {
				b.gap(v, b.in.Snapshots[s].name(), Duplicate)
			}
			continue
		}
		var skip *Skip
		if n := b.skips[i]; n != none {
			skip = &b.in.Skips[n]
			if s != none {
				b.gap(v, b.in.Snapshots[s].name(), Contradicts)
			}
		}
		b.record(c, b.pvs[i], skip, s)
	}
}

// record adds the record of a claim, with what there is of its persistent volume, of a skip and of a snapshot.
func (b *builder) record(c Claim, pv *PV, skip *Skip, snapshot int) {
	b.records = append(b.records, BackupRecord{PVCNamespace: c.Namespace, PVCName: c.Name, PVCUID: c.UID, PVName: c.PV})
	r := &b.records[len(b.records)-1]
	switch {
	case pv == nil && c.PV != "":
		b.gap(r.Volume(), "pv "+c.PV, NoPV)
	case pv != nil && pv.foreign(c):
		b.gap(r.Volume(), "pv "+pv.Name, ForeignPV)
		pv = nil
	case pv != nil:
		r.PVName = pv.Name
		r.PVInfo = &PVInfo{ReclaimPolicy: pv.ReclaimPolicy, Labels: maps.Clone(pv.Labels)}
	}
	switch {
	case skip != nil:
		r.Skipped, r.SkippedReason = true, orUnknown(skip.Reason)
	case snapshot == none:
		b.gap(r.Volume(), "", NoSnapshot)
		r.Result, r.Error = Failed, string(NoSnapshot)
	default:
		b.snapshot(r, snapshot, pv)
	}
}

// snapshot fills in what is known of the volume's snapshot, its content and its operation.
func (b *builder) snapshot(r *BackupRecord, n int, pv *PV) {
	s := &b.in.Snapshots[n]
	info := &CSISnapshotInfo{VSCName: deref(s.Content)}
	if pv != nil {
		info.Driver = pv.Driver
	}
	ready, size, created := s.ReadyToUse, s.RestoreSize, s.CreationTime
	if c := b.contents[n]; c != nil {
		info.VSCName, info.SnapshotHandle, info.VolumeGroupSnapshotHandle = c.Name, deref(c.Handle), deref(c.GroupHandle)
		info.Driver = cmp.Or(c.Driver, info.Driver)
		// Handle and readiness of one look at one object: two objects, read one after the other, may disagree.
		ready, info.ContentVersion = cmp.Or(c.ReadyToUse, ready), c.ResourceVersion
		size, created = cmp.Or(c.RestoreSize, size), cmp.Or(created, c.CreationTime)
	} else {
		b.gap(r.Volume(), s.name(), NoContent)
	}
	info.ReadyToUse, info.Size = copied(ready), copied(size)
	r.BackupMethod, r.CSISnapshotInfo, r.PreserveLocalSnapshot = CSISnapshot, info, true
	if created != nil {
		r.StartTimestamp = stamp(*created)
	}
	if i := b.worked[n]; i != none {
		op := &b.in.Operations[i]
		b.used[i] = true
		info.OperationID = op.ID
		outcome := Outcome{OperationID: op.ID, Result: op.Result, Error: op.Error, Ended: op.Ended}
		outcome.apply(r)
		if op.Result == NotFinal {
			b.gap(r.Volume(), "operation "+op.ID, StillRunning)
		}
	} else if info.SnapshotHandle != "" && deref(info.ReadyToUse) {
		r.Result = Succeeded
	}
	if !r.Final() {
		r.Error = s.Error
	}
	if info.SnapshotHandle == "" && r.Result != Failed {
		b.gap(r.Volume(), s.name(), NoHandle)
	}
}

// operations reports those that went into no record.
func (b *builder) operations() {
	for i, op := range b.in.Operations {
		if !b.used[i] {
			b.gap(VolumeID{}, "operation "+op.ID, NoRecord)
		}
	}
}

func (b *builder) gap(v VolumeID, object string, reason Reason) {
	b.gaps = append(b.gaps, Gap{Volume: v, Object: object, Reason: reason})
}

// handle is that of the snapshot with that index, empty without one.
func (b *builder) handle(snapshot int) string {
	if c := b.contents[snapshot]; c != nil {
		return deref(c.Handle)
	}
	return ""
}

// each returns what find returns for each of items.
func each[T, U any](items []T, find func(*T) U) []U {
	found := make([]U, 0, len(items))
	for i := range items {
		found = append(found, find(&items[i]))
	}
	return found
}

func (s *Snapshot) name() string { return "snapshot " + s.Namespace + "/" + s.Name }

func stamp(t time.Time) *metav1.Time { return new(metav1.NewTime(t.UTC().Truncate(time.Second))) }

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}

func has[K comparable, V any](m map[K]V, key K) bool { _, ok := m[key]; return ok }
