package volumeinfo

// tables finds inputs by what refers to them, each in constant time. Of two with the same key the first counts.
type tables struct {
	claimsByUID  map[string]int
	claimsByName map[claimKey]int
	pvsByName    map[string]int
	pvsByUID     map[string]int   // by the claim's UID
	pvsByClaim   map[claimKey]int // by the claim's name
	byUID        map[string]int   // contents by the snapshot's UID
	byName       map[string]int   // contents by name
	operations   map[claimKey]int // by the snapshot's name
	ready        map[claimKey]int // the caller's records by claim
	readyUID     map[string]int   // the same by claim UID
	readyPV      map[string]int   // the same by persistent volume, for those without a claim
	visits       int              // inputs looked at, for the test that this is linear
}

func newTables(in Inputs) *tables {
	claims, pvs, contents, records := len(in.Claims), len(in.PVs), len(in.Contents), len(in.Records)
	t := &tables{
		claimsByUID: make(map[string]int, claims), claimsByName: make(map[claimKey]int, claims),
		pvsByName: make(map[string]int, pvs), pvsByUID: make(map[string]int, pvs), pvsByClaim: make(map[claimKey]int, pvs),
		byUID: make(map[string]int, contents), byName: make(map[string]int, contents), operations: make(map[claimKey]int, len(in.Operations)),
		ready: make(map[claimKey]int, records), readyUID: make(map[string]int, records), readyPV: make(map[string]int, records),
	}
	for i, c := range in.Claims {
		first(t, t.claimsByUID, c.UID, i)
		first(t, t.claimsByName, claimKey{c.Namespace, c.Name}, i)
	}
	for i, pv := range in.PVs {
		first(t, t.pvsByName, pv.Name, i)
		first(t, t.pvsByUID, pv.ClaimUID, i)
		first(t, t.pvsByClaim, claimKey{pv.ClaimNamespace, pv.ClaimName}, i)
	}
	for i, c := range in.Contents {
		first(t, t.byUID, c.SnapshotUID, i)
		first(t, t.byName, c.Name, i)
	}
	for i, op := range in.Operations {
		first(t, t.operations, claimKey{op.Namespace, op.Name}, i)
	}
	for i, r := range in.Records {
		v := r.Volume()
		if v.Claim != "" {
			first(t, t.ready, claimKey{v.Namespace, v.Claim}, i)
		} else {
			first(t, t.readyPV, v.PV, i)
		}
		first(t, t.readyUID, v.ClaimUID, i)
	}
	return t
}

func first[K comparable](t *tables, m map[K]int, key K, i int) {
	t.visits++
	var none K
	if _, double := m[key]; !double && key != none {
		m[key] = i
	}
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
func (t *tables) claim(in Inputs, namespace, name, uid string) (index int, ok, recreated bool) {
	t.visits++
	if uid != "" {
		if i, ok := t.claimsByUID[uid]; ok {
			return i, true, false
		}
	}
	i, ok := t.claimsByName[claimKey{namespace, name}]
	if ok && uid != "" && in.Claims[i].UID != "" {
		return 0, false, true
	}
	return i, ok, false
}

// pv finds the persistent volume of a claim: the one it names, else the one that names it.
func (t *tables) pv(in Inputs, c Claim) *PV {
	i, ok := t.pvsByName[c.PV]
	if !ok && c.UID != "" {
		i, ok = t.pvsByUID[c.UID]
	}
	if !ok {
		i, ok = t.pvsByClaim[claimKey{c.Namespace, c.Name}]
		ok = ok && (c.UID == "" || in.PVs[i].ClaimUID == "")
	}
	return at(t, in.PVs, i, ok)
}

// foreign reports whether a persistent volume is bound to another claim than c.
func (pv *PV) foreign(c Claim) bool {
	if pv.ClaimUID != "" && c.UID != "" {
		return pv.ClaimUID != c.UID
	}
	return pv.ClaimName != "" && (pv.ClaimName != c.Name || pv.ClaimNamespace != c.Namespace)
}

// content finds the content of a snapshot: by the snapshot's UID where both have one, else by name.
func (t *tables) content(in Inputs, s Snapshot) *Content {
	i, ok := t.byUID[s.UID]
	if !ok && s.Content != nil {
		i, ok = t.byName[*s.Content]
		ok = ok && (s.UID == "" || in.Contents[i].SnapshotUID == "")
	}
	return at(t, in.Contents, i, ok)
}

// readyFor finds the caller's own record of a claim.
func (t *tables) readyFor(in Inputs, v VolumeID) bool {
	t.visits++
	if _, ok := t.readyUID[v.ClaimUID]; ok && v.ClaimUID != "" {
		return true
	}
	if v.Claim == "" {
		_, ok := t.readyPV[v.PV]
		return ok
	}
	i, ok := t.ready[claimKey{v.Namespace, v.Claim}]
	return ok && (v.ClaimUID == "" || in.Records[i].PVCUID == "")
}
