package volumeinfo

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
)

// sorted returns in with its slices copied in an order of their own, so that the caller's does not matter.
func sorted(in Inputs) Inputs {
	in.Claims = inOrder(in.Claims, func(a, b Claim) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID), cmp.Compare(a.PV, b.PV))
	})
	in.PVs = inOrder(in.PVs, func(a, b PV) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ClaimUID, b.ClaimUID))
	})
	in.Snapshots = inOrder(in.Snapshots, func(a, b Snapshot) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	in.Contents = inOrder(in.Contents, func(a, b Content) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.SnapshotUID, b.SnapshotUID))
	})
	in.Operations = inOrder(in.Operations, func(a, b Operation) int { return cmp.Compare(a.ID, b.ID) })
	in.Skips = inOrder(in.Skips, func(a, b Skip) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Claim, b.Claim), cmp.Compare(a.PV, b.PV), cmp.Compare(a.Reason, b.Reason))
	})
	in.Records = inOrder(in.Records, func(a, b BackupRecord) int {
		if c := a.Volume().Compare(b.Volume()); c != 0 {
			return c
		}
		// An Extra that is no JSON gives no text here and an error in Encode.
		x, _ := json.Marshal(a)
		y, _ := json.Marshal(b)
		return bytes.Compare(x, y)
	})
	return in
}

// inOrder returns a sorted copy.
func inOrder[T any](items []T, compare func(a, b T) int) []T {
	items = slices.Clone(items)
	slices.SortStableFunc(items, compare)
	return items
}

// distinct drops claims listed twice. Of the same claim with and without a UID the one with it stays.
func (b *builder) distinct(claims []Claim) []Claim {
	out := make([]Claim, 0, len(claims))
	for _, c := range claims {
		n := len(out) - 1
		if n < 0 || out[n].Namespace != c.Namespace || out[n].Name != c.Name || out[n].UID != "" && out[n].UID != c.UID {
			out = append(out, c)
			continue
		}
		b.gap(VolumeID{Namespace: c.Namespace, Claim: c.Name, ClaimUID: out[n].UID, PV: out[n].PV}, "claim", Duplicate)
		out[n].UID, out[n].PV = c.UID, cmp.Or(c.PV, out[n].PV)
	}
	return out
}
