package driver

import (
	"cmp"
	"maps"
	"slices"
)

// volumes returns the volumes by claim and name.
func (s *service) volumes() []Volume {
	return orEmpty(slices.SortedFunc(maps.Values(s.store.get().Volumes), func(a, b Volume) int {
		return cmp.Or(cmp.Compare(a.Claim, b.Claim), cmp.Compare(a.Name, b.Name))
	}))
}

// groups returns the groups by name.
func (s *service) groups() []Group {
	return orEmpty(slices.SortedFunc(maps.Values(s.store.get().Groups), func(a, b Group) int { return cmp.Compare(a.Name, b.Name) }))
}

// snapshots returns the snapshots that are cut, by name, with what the calls told of them.
func (s *service) snapshots() []Snapshot {
	st := s.store.get()
	calls, _ := s.journal.all()
	told := map[string]Call{} // the last CreateSnapshot call by name
	for _, c := range calls {
		if c.Method == createSnapshot {
			told[c.Name] = c
		}
	}
	snapshots := []Snapshot{}
	for _, p := range s.storage.Snapshots() {
		snapshots = append(snapshots, Snapshot{
			ID: p.Handle, Name: p.Name, Claim: claimOf(p), Volume: p.VolumeHandle, Bytes: p.Size, CutAt: p.CutAt, Ready: p.ReadyToUse,
			VolumeSnapshot: told[p.Name].VolumeSnapshot, Content: told[p.Name].Content, Group: st.groupOf(p.Handle),
		})
	}
	return snapshots
}
