package volumeinfo

import (
	"slices"
	"sync"
)

// tables finds inputs by what refers to them, each in constant time. Of two with the same key the first counts. What is
// looked for only when a better key finds nothing is a table that is made when it is first asked for.
type tables struct {
	in           Inputs
	claimsByUID  map[string]int
	claimsByName func() map[claimKey]int
	pvsByName    map[string]int
	pvsByUID     func() map[string]int   // by the claim's UID
	pvsByClaim   func() map[claimKey]int // by the claim's name
	byUID        map[string]int          // contents by the snapshot's UID
	byName       func() map[string]int   // contents by name
	operations   map[claimKey]int        // by the snapshot's name
	ready        map[claimKey]int        // the caller's records by claim
	readyUID     map[string]int          // the same by claim UID
	readyPV      map[string]int          // the same by persistent volume, for those without a claim
	visits       int                     // inputs looked at, for the test that this is linear
}

func newTables(in Inputs) *tables {
	t := &tables{in: in}
	t.claimsByUID = table(t, in.Claims, func(c *Claim) string { return c.UID })()
	t.claimsByName = table(t, in.Claims, func(c *Claim) claimKey { return claimKey{c.Namespace, c.Name} })
	t.pvsByName = table(t, in.PVs, func(pv *PV) string { return pv.Name })()
	t.pvsByUID = table(t, in.PVs, func(pv *PV) string { return pv.ClaimUID })
	t.pvsByClaim = table(t, in.PVs, func(pv *PV) claimKey { return claimKey{pv.ClaimNamespace, pv.ClaimName} })
	t.byUID = table(t, in.Contents, func(c *Content) string { return c.SnapshotUID })()
	t.byName = table(t, in.Contents, func(c *Content) string { return c.Name })
	t.operations = table(t, in.Operations, func(op *Operation) claimKey { return claimKey{op.Namespace, op.Name} })()
	t.readyUID = table(t, in.Records, func(r *BackupRecord) string { return r.PVCUID })()
	t.ready = table(t, in.Records, func(r *BackupRecord) claimKey {
		if r.PVCName == "" {
			return claimKey{}
		}
		return claimKey{r.PVCNamespace, r.PVCName}
	})()
	t.readyPV = table(t, in.Records, func(r *BackupRecord) string {
		if r.PVCName != "" {
			return ""
		}
		return r.PVName
	})()
	return t
}

// table returns a function that makes the table of items by their keys when it is first called. The zero key finds nothing.
func table[T any, K comparable](t *tables, items []T, key func(*T) K) func() map[K]int {
	return sync.OnceValue(func() map[K]int {
		m := make(map[K]int, len(items))
		for i := range slices.Backward(items) { // so that the first of a key is the one that stays
			t.visits++
			var zero K
			if k := key(&items[i]); k != zero {
				m[k] = i
			}
		}
		return m
	})
}

// at returns the i-th of items, or nil when it was not found.
func at[T any](t *tables, items []T, i int, ok bool) *T {
	t.visits++
	if !ok {
		return nil
	}
	return &items[i]
}

// claim finds the claim of a snapshot or skip: by UID where there is one, else by name. recreated says that a claim of
// that name is there, but a different one.
func (t *tables) claim(namespace, name, uid string) (index int, ok, recreated bool) {
	t.visits++
	if uid != "" {
		if i, ok := t.claimsByUID[uid]; ok {
			return i, true, false
		}
	}
	i, ok := t.claimsByName()[claimKey{namespace, name}]
	if ok && uid != "" && t.in.Claims[i].UID != "" {
		return 0, false, true
	}
	return i, ok, false
}

// pv finds the persistent volume of a claim: the one it names, else the one that names it.
func (t *tables) pv(c *Claim) *PV {
	i, ok := t.pvsByName[c.PV]
	if !ok && c.UID != "" {
		i, ok = t.pvsByUID()[c.UID]
	}
	if !ok {
		i, ok = t.pvsByClaim()[claimKey{c.Namespace, c.Name}]
		ok = ok && (c.UID == "" || t.in.PVs[i].ClaimUID == "")
	}
	return at(t, t.in.PVs, i, ok)
}

// foreign reports whether a persistent volume is bound to another claim than c.
func (pv *PV) foreign(c Claim) bool {
	if pv.ClaimUID != "" && c.UID != "" {
		return pv.ClaimUID != c.UID
	}
	return pv.ClaimName != "" && (pv.ClaimName != c.Name || pv.ClaimNamespace != c.Namespace)
}

// content finds the content of a snapshot: by the snapshot's UID where both have one, else by name.
func (t *tables) content(s *Snapshot) *Content {
	i, ok := t.byUID[s.UID]
	if !ok && s.Content != nil {
		i, ok = t.byName()[*s.Content]
		ok = ok && (s.UID == "" || t.in.Contents[i].SnapshotUID == "")
	}
	return at(t, t.in.Contents, i, ok)
}

// operation finds the index of a snapshot's operation, none without one.
func (t *tables) operation(s *Snapshot) int {
	t.visits++
	if i, ok := t.operations[claimKey{s.Namespace, s.Name}]; ok {
		return i
	}
	return none
}

// readyFor finds the caller's own record of a claim.
func (t *tables) readyFor(v VolumeID) bool {
	t.visits++
	if _, ok := t.readyUID[v.ClaimUID]; ok && v.ClaimUID != "" {
		return true
	}
	if v.Claim == "" {
		_, ok := t.readyPV[v.PV]
		return ok
	}
	i, ok := t.ready[claimKey{v.Namespace, v.Claim}]
	return ok && (v.ClaimUID == "" || t.in.Records[i].PVCUID == "")
}
