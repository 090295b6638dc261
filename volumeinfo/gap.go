package volumeinfo

import (
	"cmp"
	"slices"
	"strings"
)

// Reason is why something could not be joined to a volume.
type Reason string

// The closed set of reasons.
const (
	NoPV         Reason = "persistent volume not found"
	ForeignPV    Reason = "persistent volume belongs to another claim"
	NoSnapshot   Reason = "no snapshot found"
	NoContent    Reason = "snapshot content not found"
	NoHandle     Reason = "no snapshot handle"
	NoClaim      Reason = "claim not found"
	Recreated    Reason = "claim was deleted and created again"
	ForeignOwner Reason = "belongs to another owner"
	Duplicate    Reason = "another one is recorded for the same volume"
	NoRecord     Reason = "no record of its volume"
	// OtherOperation is an operation of a volume whose record follows another one, as after a second try.
	OtherOperation Reason = "the volume's record follows another operation"
	NoResult       Reason = "no final result and no operation that will bring one"
	StillRunning   Reason = "operation has not ended"
	Contradicts    Reason = "contradicts the record"
)

// Gap is one thing that the records do not say or could not hold. Whatever is not in a record is in a gap.
type Gap struct {
	// Volume is the volume concerned, as far as it is known.
	Volume VolumeID
	// Object says what was not joined, for example "VolumeSnapshot app/data-1".
	Object string
	// Reason is why.
	Reason Reason
}

// String returns the gap as one line for people.
func (g Gap) String() string {
	var b strings.Builder
	if g.Volume != (VolumeID{}) {
		b.WriteString("volume " + g.Volume.String() + ": ")
	}
	if g.Object != "" {
		b.WriteString(g.Object + ": ")
	}
	b.WriteString(string(g.Reason))
	return b.String()
}

func sortGaps(gaps []Gap) []Gap {
	slices.SortFunc(gaps, func(a, b Gap) int {
		return cmp.Or(a.Volume.Compare(b.Volume), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Reason, b.Reason))
	})
	return slices.Compact(gaps)
}
