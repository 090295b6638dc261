package volumeinfo

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
)

// sorted returns in with its slices in an order of their own, so that the caller's does not matter.
func sorted(in Inputs) Inputs {
	in.Claims = inOrder(in.Claims, by(func(c *Claim) [4]string { return [4]string{c.Namespace, c.Name, c.UID, c.PV} }))
	in.PVs = inOrder(in.PVs, by(func(pv *PV) [4]string { return [4]string{pv.Name, pv.ClaimUID} }))
	in.Snapshots = inOrder(in.Snapshots, by(func(s *Snapshot) [4]string { return [4]string{s.Namespace, s.Name, s.UID} }))
	in.Contents = inOrder(in.Contents, by(func(c *Content) [4]string { return [4]string{c.Name, c.SnapshotUID} }))
	in.Operations = inOrder(in.Operations, by(func(op *Operation) [4]string { return [4]string{op.ID} }))
	in.Skips = inOrder(in.Skips, by(func(s *Skip) [4]string { return [4]string{s.Namespace, s.Claim, s.PV, s.Reason} }))
	in.Records = inOrder(in.Records, func(a, b *BackupRecord) int {
		if c := byVolume(a, b); c != 0 {
			return c
		}
		// An Extra that is no JSON gives no text here and an error in Encode.
		x, _ := json.Marshal(a)
		y, _ := json.Marshal(b)
		return bytes.Compare(x, y)
	})
	return in
}

// by compares by the texts of the key.
func by[T any](key func(*T) [4]string) func(a, b *T) int {
	return func(a, b *T) int {
		x, y := key(a), key(b)
		return slices.Compare(x[:], y[:])
	}
}

func byVolume(a, b *BackupRecord) int { return a.Volume().Compare(b.Volume()) }

// inOrder returns items if they are sorted, as lists of an API server are, else a sorted copy. Equal ones keep their order.
func inOrder[T any](items []T, compare func(a, b *T) int) []T {
	refs := make([]*T, 0, len(items))
	for i := range items {
		refs = append(refs, &items[i])
	}
	if slices.IsSortedFunc(refs, compare) {
		return items
	}
	slices.SortStableFunc(refs, compare)
	out := make([]T, 0, len(items))
	for _, ref := range refs {
		out = append(out, *ref)
	}
	return out
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
