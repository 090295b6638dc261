package volumeinfo

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Outcome is how an asynchronous operation on a volume stands.
type Outcome struct {
	// OperationID identifies the operation. Empty: the volume alone identifies the record.
	OperationID string
	// Volume is the operation's volume, as far as it is known: it finds the record when no record has the operation.
	Volume VolumeID
	// Result is empty while the operation runs.
	Result Result
	// Error is why it failed.
	Error string
	// Ended is when it ended, zero when not known.
	Ended time.Time
	// Handle, Size and Ready are what the operation learned of a CSI snapshot: empty or nil when it learned nothing.
	Handle string
	Size   *int64
	Ready  *bool
}

// Merge returns the records with the outcomes of their operations, in the order given, and sorted gaps: outcomes that
// found no record or contradict it, and records that have no final result still. The arguments are left as they are.
//
// A record is found by the operation's ID, else, if it has no operation of its own, by the claim's UID, else by namespace
// and name if no UID speaks against it. A failure stays: no outcome turns failed into succeeded or replaces an error that is there, so merging again, or in
// another order, changes nothing. A skipped record is never changed.
func Merge(records []BackupRecord, outcomes []Outcome) ([]BackupRecord, []Gap) {
	merged := slices.Clone(records)
	find := newFinder(merged)
	ordered := slices.SortedStableFunc(slices.Values(outcomes), func(a, b Outcome) int {
		return cmp.Or(cmp.Compare(a.OperationID, b.OperationID), cmp.Compare(a.Error, b.Error))
	})
	var gaps []Gap
	for _, o := range ordered {
		i, reason := find.record(merged, o)
		object := "operation " + o.OperationID
		switch {
		case reason != "":
			gaps = append(gaps, Gap{Volume: o.Volume, Object: object, Reason: reason})
		case merged[i].Skipped, merged[i].Result == Failed && o.Result == Succeeded:
			gaps = append(gaps, Gap{Volume: merged[i].Volume(), Object: object, Reason: Contradicts})
		default:
			merged[i] = merged[i].owned()
			o.apply(&merged[i])
		}
	}
	for _, r := range merged {
		switch id := r.OperationID(); {
		case r.Final():
		case id == "":
			gaps = append(gaps, Gap{Volume: r.Volume(), Object: "record", Reason: NoResult})
		default:
			gaps = append(gaps, Gap{Volume: r.Volume(), Object: "operation " + id, Reason: StillRunning})
		}
	}
	return merged, sortGaps(gaps)
}

// owned returns r with the nested struct that apply writes copied.
func (r BackupRecord) owned() BackupRecord {
	if r.CSISnapshotInfo != nil {
		info := *r.CSISnapshotInfo
		info.Extra = maps.Clone(info.Extra)
		r.CSISnapshotInfo = &info
	}
	return r
}

// apply writes the outcome into a record whose nested structs are its own.
func (o Outcome) apply(r *BackupRecord) {
	if info := r.CSISnapshotInfo; info != nil && !r.SnapshotDataMoved {
		if info.OperationID == "" {
			info.OperationID = o.OperationID
		}
		if info.SnapshotHandle == "" {
			info.SnapshotHandle = o.Handle
		}
		if o.Size != nil {
			info.Size = copied(o.Size)
		}
		if o.Ready != nil {
			info.ReadyToUse = copied(o.Ready)
		}
	}
	switch {
	case o.Result == Failed && (r.Result == NotFinal || r.Result == Succeeded):
		r.Result = Failed
		r.PreserveLocalSnapshot = r.PreserveLocalSnapshot && r.SnapshotDataMoved
		r.Error = cmp.Or(o.Error, r.Error)
	case o.Result == Failed && r.Result == Failed:
		r.Error = cmp.Or(r.Error, o.Error)
	case o.Result == Succeeded && r.Result == NotFinal:
		r.Result, r.Error = Succeeded, ""
	}
	if r.CompletionTimestamp == nil && o.Result != NotFinal && !o.Ended.IsZero() {
		r.CompletionTimestamp = stamp(o.Ended)
	}
}

// finder finds the record of an outcome in constant time.
type finder struct {
	byOperation map[string]int
	byUID       map[string]int
	byClaim     map[claimKey]int
}

func newFinder(records []BackupRecord) finder {
	f := finder{byOperation: map[string]int{}, byUID: map[string]int{}, byClaim: map[claimKey]int{}}
	for i, r := range records {
		keep(f.byOperation, r.OperationID(), i)
		keep(f.byUID, r.PVCUID, i)
		if r.PVCName != "" {
			keep(f.byClaim, claimKey{r.PVCNamespace, r.PVCName}, i)
		}
	}
	return f
}

func keep[K comparable](m map[K]int, key K, i int) {
	var none K
	if key != none && !has(m, key) {
		m[key] = i
	}
}

// record returns the place of the outcome's record, or why it has none.
func (f finder) record(records []BackupRecord, o Outcome) (int, Reason) {
	if i, ok := f.byOperation[o.OperationID]; ok {
		return i, ""
	}
	i, ok := f.byUID[o.Volume.ClaimUID]
	if !ok {
		i, ok = f.byClaim[claimKey{o.Volume.Namespace, o.Volume.Claim}]
		ok = ok && (o.Volume.ClaimUID == "" || records[i].PVCUID == "")
	}
	switch {
	case !ok:
		return 0, NoRecord
	case o.OperationID != "" && records[i].OperationID() != "":
		return 0, OtherOperation
	}
	return i, ""
}
