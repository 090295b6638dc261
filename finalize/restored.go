package finalize

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

// RestoredVolume is one volume that a restore brought back.
type RestoredVolume struct {
	// Namespace and Claim name the restored claim, where it is now. Both are required: [New] refuses a hook of a volume without
	// one, by its index and field.
	Namespace, Claim string
	// ClaimUID is the UID of the claim that the restore created. A claim of the same name with another one is not touched.
	// Empty: the name decides.
	ClaimUID types.UID
	// Saved is what the backup kept of the persistent volume. Nil: there is nothing to give back.
	Saved *volumeinfo.PVInfo
	// OperationID identifies the operation that fills the volume. Empty: none does.
	OperationID string
}

// named makes New refuse the hook because of each volume without a name: a list of no namespace is one of all.
func (h Hook) named(volumes []RestoredVolume) Hook {
	for i, v := range volumes {
		if v.Namespace == "" {
			h = h.refuse(fmt.Sprintf("volumes[%d].Namespace", i), "is empty")
		}
		if v.Claim == "" {
			h = h.refuse(fmt.Sprintf("volumes[%d].Claim", i), "is empty")
		}
	}
	return h
}

func (v RestoredVolume) compare(w RestoredVolume) int {
	return cmp.Or(cmp.Compare(v.Namespace, w.Namespace), cmp.Compare(v.Claim, w.Claim))
}

// RestoredVolumes returns the volumes of the records that can be restored, sorted by where they go: namespaces maps an old
// namespace to a new one, those that are not in it stay. Records that cannot be restored, see
// volumeinfo.BackupRecord.Restorable, and those without a claim are left out. Nothing is shared with the records. Two
// records that go to one claim are [ErrInvalid], with both named: the files do not say whose labels the volume has. So is
// one that goes to no namespace, by its own or by the map: no namespace means all of them.
func RestoredVolumes(records []volumeinfo.BackupRecord, namespaces map[string]string) ([]RestoredVolume, error) {
	var out []RestoredVolume
	from := map[types.NamespacedName]volumeinfo.VolumeID{}
	var faults []error
	for _, r := range records {
		if r.PVCName == "" || r.Restorable() != nil {
			continue
		}
		v := RestoredVolume{Namespace: r.PVCNamespace, Claim: r.PVCName}
		if to, ok := namespaces[r.PVCNamespace]; ok {
			v.Namespace = to
		}
		if v.Namespace == "" {
			faults = append(faults, fmt.Errorf("%w records: %s goes to no namespace", ErrInvalid, r.Volume()))
			continue
		}
		if r.PVInfo != nil {
			v.Saved = &volumeinfo.PVInfo{ReclaimPolicy: r.PVInfo.ReclaimPolicy, Labels: maps.Clone(r.PVInfo.Labels)}
		}
		name := types.NamespacedName{Namespace: v.Namespace, Name: v.Claim}
		if first, double := from[name]; double {
			faults = append(faults, fmt.Errorf("%w records: %s and %s both go to claim %s", ErrInvalid, first, r.Volume(), name))
			continue
		}
		from[name] = r.Volume()
		out = append(out, v)
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	slices.SortFunc(out, RestoredVolume.compare)
	return out, nil
}

// SkipReason is why a volume was left alone on purpose. Empty: it was not.
type SkipReason string

// The closed set of reasons.
const (
	// SkipNoConsumer is a claim that is bound only when a pod needs it, and none has asked.
	SkipNoConsumer SkipReason = "it waits for its first consumer"
	// SkipStatic is a volume that no provisioner made: nothing of it was lost.
	SkipStatic SkipReason = "it is statically provisioned"
	// SkipOperation is a volume whose operation failed, was canceled or abandoned: the error of that stays.
	SkipOperation SkipReason = "its operation did not complete"
	// SkipRecreated is a claim that was deleted and created again since the restore.
	SkipRecreated SkipReason = "the claim was deleted and created again"
	// SkipGone is a claim or persistent volume that was deleted since the restore, or is being deleted.
	SkipGone SkipReason = "it was deleted"
	// SkipNothingSaved is a volume of which the backup kept nothing to give back.
	SkipNothingSaved SkipReason = "nothing was saved of its persistent volume"
)

var (
	// ErrNotBound says that a claim was not bound, or its volume not read or written, by its deadline.
	ErrNotBound = errors.New("volume not restored in time")
	// ErrLostClaim says that the persistent volume of a claim is gone.
	ErrLostClaim = errors.New("claim has lost its persistent volume")
	// ErrReleasedVolume says that a persistent volume was let go of by its claim.
	ErrReleasedVolume = errors.New("persistent volume is released")
	// ErrForeignVolume says that a persistent volume belongs to another claim than the one that names it.
	ErrForeignVolume = errors.New("persistent volume belongs to another claim")
	// ErrVolumeMissing says that a restored volume is not there.
	ErrVolumeMissing = errors.New("restored volume is missing")
)

// VolumeOutcome is what became of one restored volume.
type VolumeOutcome struct {
	Volume RestoredVolume
	// PV names the persistent volume; empty when none was seen.
	PV string
	// Change is what was written; zero when there was nothing to write.
	Change PVChange
	// Skipped is why the volume was left alone on purpose.
	Skipped SkipReason
	// Notes are saved labels that the persistent volume did not get back, because its own must stay.
	Notes []string
	// Err is why the volume could not be given back what it had: ErrNotBound, ErrLostClaim, ErrReleasedVolume,
	// ErrForeignVolume, or what the API server or the callback said.
	Err error
}

// faults returns what the report says of the volume.
func (o VolumeOutcome) fault() error {
	item := func(err error) error { return Item(o.Volume.Namespace, o.Volume.Claim, err) }
	switch {
	case o.Err != nil:
		return item(o.Err)
	case o.Skipped != "" && o.Skipped != SkipStatic && o.Skipped != SkipNothingSaved:
		return Warning(item(errors.New("reclaim policy and labels of its persistent volume were left as they are: " + string(o.Skipped))))
	}
	var notes []error
	for _, n := range o.Notes {
		notes = append(notes, Warning(item(errors.New(n))))
	}
	return errors.Join(notes...)
}
