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

type builder struct {
	in      Inputs
	t       *tables
	records []BackupRecord
	gaps    []Gap
	chosen  map[int]int  // claim to snapshot
	skipped map[int]int  // claim to skip
	used    map[int]bool // operations that went into a record
}

func build(in Inputs) (records []BackupRecord, gaps []Gap, visits int) {
	in = sorted(in)
	b := &builder{
		records: make([]BackupRecord, 0, len(in.Records)+len(in.Claims)),
		chosen:  make(map[int]int, len(in.Snapshots)), skipped: make(map[int]int, len(in.Skips)), used: make(map[int]bool, len(in.Operations)),
	}
	in.Claims = b.distinct(in.Claims)
	b.in, b.t = in, newTables(in)
	b.own()
	b.assignSkips()
	orphans := b.assignSnapshots()
	b.claims()
	for _, i := range orphans {
		s := in.Snapshots[i]
		b.records = append(b.records, b.record(Claim{Namespace: s.Namespace, Name: deref(s.Claim), UID: s.ClaimUID}, nil, &s))
	}
	b.operations()
	slices.SortStableFunc(b.records, func(x, y BackupRecord) int { return x.Volume().Compare(y.Volume()) })
	return b.records, sortGaps(b.gaps), b.t.visits
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
		c, ok, _ := b.t.claim(b.in, s.Namespace, s.Claim, s.ClaimUID)
		if !ok && s.Claim == "" && s.PV != "" {
			if pv := at(b.t, b.in.PVs, b.t.pvsByName[s.PV], has(b.t.pvsByName, s.PV)); pv != nil {
				c, ok, _ = b.t.claim(b.in, pv.ClaimNamespace, pv.ClaimName, pv.ClaimUID)
			}
		}
		switch {
		case !ok && b.t.readyFor(b.in, v), ok && has(b.skipped, c):
			b.gap(v, "skip", Duplicate)
		case ok:
			b.skipped[c] = i
		default:
			b.records = append(b.records, BackupRecord{
				PVCNamespace: s.Namespace, PVCName: s.Claim, PVCUID: s.ClaimUID, PVName: s.PV, Skipped: true, SkippedReason: orUnknown(s.Reason),
			})
		}
	}
}

// assignSnapshots gives each snapshot to its claim, the best of several, and returns those whose claim is gone.
func (b *builder) assignSnapshots() (orphans []int) {
	for i, s := range b.in.Snapshots {
		v := VolumeID{Namespace: s.Namespace, Claim: deref(s.Claim), ClaimUID: s.ClaimUID}
		c, ok, recreated := b.t.claim(b.in, s.Namespace, deref(s.Claim), s.ClaimUID)
		if ok {
			v = VolumeID{Namespace: b.in.Claims[c].Namespace, Claim: b.in.Claims[c].Name, ClaimUID: b.in.Claims[c].UID}
		}
		previous, double := b.chosen[c]
		switch {
		case b.in.Owner != "" && s.OwnerUID != b.in.Owner:
			b.gap(v, s.name(), ForeignOwner)
		case !ok && recreated:
			b.gap(v, s.name(), Recreated)
		case !ok && b.t.readyFor(b.in, v):
			b.gap(v, s.name(), Duplicate)
		case !ok:
			b.gap(v, s.name(), NoClaim)
			orphans = append(orphans, i)
		case double && (b.t.handle(b.in, b.in.Snapshots[previous]) != "" || b.t.handle(b.in, s) == ""):
			b.gap(v, s.name(), Duplicate)
		case double:
			b.gap(v, b.in.Snapshots[previous].name(), Duplicate)
			b.chosen[c] = i
		default:
			b.chosen[c] = i
		}
	}
	return orphans
}

func (b *builder) claims() {
	for i, c := range b.in.Claims {
		v := VolumeID{Namespace: c.Namespace, Claim: c.Name, ClaimUID: c.UID, PV: c.PV}
		var s *Snapshot
		if n, ok := b.chosen[i]; ok {
			s = &b.in.Snapshots[n]
		}
		if b.t.readyFor(b.in, v) {
			if s != nil {
				b.gap(v, s.name(), Duplicate)
			}
			continue
		}
		var skip *Skip
		if n, ok := b.skipped[i]; ok {
			skip = &b.in.Skips[n]
			if s != nil {
				b.gap(v, s.name(), Contradicts)
			}
		}
		b.records = append(b.records, b.record(c, skip, s))
	}
}

func (b *builder) record(c Claim, skip *Skip, s *Snapshot) BackupRecord {
	r := BackupRecord{PVCNamespace: c.Namespace, PVCName: c.Name, PVCUID: c.UID, PVName: c.PV}
	pv := b.t.pv(b.in, c)
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
	case s == nil:
		b.gap(r.Volume(), "", NoSnapshot)
		r.Result, r.Error = Failed, string(NoSnapshot)
	default:
		b.snapshot(&r, *s, pv)
	}
	return r
}

// snapshot fills in what is known of the volume's snapshot, its content and its operation.
func (b *builder) snapshot(r *BackupRecord, s Snapshot, pv *PV) {
	info := &CSISnapshotInfo{ReadyToUse: copied(s.ReadyToUse), Size: copied(s.RestoreSize), VSCName: deref(s.Content)}
	if pv != nil {
		info.Driver = pv.Driver
	}
	created := s.CreationTime
	if c := b.t.content(b.in, s); c != nil {
		info.VSCName, info.SnapshotHandle, info.VolumeGroupSnapshotHandle = c.Name, deref(c.Handle), deref(c.GroupHandle)
		info.Driver = cmp.Or(c.Driver, info.Driver)
		info.Size = cmp.Or(copied(c.RestoreSize), info.Size)
		// Handle and readiness of one look at one object: two objects, read one after the other, may disagree.
		info.ReadyToUse, info.ContentVersion = cmp.Or(copied(c.ReadyToUse), info.ReadyToUse), c.ResourceVersion
		created = cmp.Or(created, c.CreationTime)
	} else {
		b.gap(r.Volume(), s.name(), NoContent)
	}
	r.BackupMethod, r.CSISnapshotInfo, r.PreserveLocalSnapshot = CSISnapshot, info, true
	if created != nil {
		r.StartTimestamp = stamp(*created)
	}
	i, ok := b.t.operations[claimKey{s.Namespace, s.Name}]
	if op := at(b.t, b.in.Operations, i, ok); op != nil {
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

func (t *tables) handle(in Inputs, s Snapshot) string {
	if c := t.content(in, s); c != nil {
		return deref(c.Handle)
	}
	return ""
}

func (s Snapshot) name() string { return "snapshot " + s.Namespace + "/" + s.Name }

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
