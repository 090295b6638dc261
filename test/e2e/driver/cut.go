package driver

import (
	"cmp"
	"slices"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

// Methods whose calls make or end snapshots.
const (
	createSnapshot = "CreateSnapshot"
	createGroup    = "CreateVolumeGroupSnapshot"
	deleteSnapshot = "DeleteSnapshot"
	deleteGroup    = "DeleteVolumeGroupSnapshot"
)

// Cut is one physical snapshot that was taken, whether it is still held or not. One that was deleted and taken again
// under the same name is two.
type Cut struct {
	ID       string
	Name     string
	Claim    string `json:",omitzero"` // "NAMESPACE/CLAIM"; empty if not known
	Volume   string
	CutAt    time.Time
	Answered time.Time `json:",omitzero"` // when the first answer that told of it was ready to go out; zero if none did
	Deleted  time.Time `json:",omitzero"` // when the call that deleted it was answered; zero if there is none, or if the driver was killed during it
	Held     bool      // whether the driver holds it now
}

// cutsOf returns every cut that the calls or what is held tell of, in the order of CutAt and Name.
func cutsOf(calls []Call, held []backuptest.StoredSnapshot) []Cut {
	var cuts []Cut
	find := func(id string, at time.Time) *Cut {
		i := slices.IndexFunc(cuts, func(c Cut) bool { return c.ID == id && c.CutAt.Equal(at) })
		if i < 0 {
			cuts = append(cuts, Cut{ID: id, CutAt: at})
			i = len(cuts) - 1
		}
		return &cuts[i]
	}
	for _, call := range calls {
		for _, p := range call.Snapshots {
			cut := find(p.ID, p.CutAt)
			cut.Name, cut.Claim, cut.Volume = p.Name, p.Claim, p.Volume
			switch call.Method {
			case createSnapshot, createGroup:
				cut.Answered = earlier(cut.Answered, call.Answered) // only a good answer tells of snapshots
			case deleteSnapshot, deleteGroup:
				if p.Gone {
					cut.Deleted = earlier(cut.Deleted, call.Answered)
				}
			}
		}
	}
	for _, p := range held {
		cut := find(p.Handle, p.CutAt)
		cut.Name, cut.Claim, cut.Volume, cut.Held = p.Name, claimOf(p), p.VolumeHandle, true
	}
	slices.SortFunc(cuts, func(a, b Cut) int { return cmp.Or(a.CutAt.Compare(b.CutAt), cmp.Compare(a.Name, b.Name)) })
	return cuts
}

// earlier returns the earlier one of two times that are not zero.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Counts says how often the driver was called, over restarts. Calls that are under way are not counted.
type Counts struct {
	Methods   map[string]map[string]int // by method, then by the name of the gRPC code or Unanswered
	Snapshots map[string]map[string]int // CreateSnapshot calls by the name of the snapshot, then by code
}

func countsOf(calls []Call) Counts {
	counts := Counts{Methods: map[string]map[string]int{}, Snapshots: map[string]map[string]int{}}
	for _, c := range calls {
		if c.Code == "" {
			continue
		}
		count(counts.Methods, c.Method, c.Code)
		if c.Method == createSnapshot {
			count(counts.Snapshots, c.Name, c.Code)
		}
	}
	return counts
}

func count(by map[string]map[string]int, key, code string) {
	if by[key] == nil {
		by[key] = map[string]int{}
	}
	by[key][code]++
}
