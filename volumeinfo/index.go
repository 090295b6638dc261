package volumeinfo

// Index finds records by claim and by persistent volume in constant time, so the claim of a persistent volume and the
// persistent volume of a claim too. It is immutable and safe for concurrent use; the zero value is empty.
type Index[R Record] struct {
	claims map[claimKey]R
	pvs    map[string]R
}

type claimKey struct{ namespace, name string }

// NewIndex indexes records. Of several records for one claim, or one persistent volume, the first is kept and each other
// one is a gap with [Duplicate]. Records that name neither are not found by either.
func NewIndex[R Record](records []R) (*Index[R], []Gap) {
	x := &Index[R]{claims: make(map[claimKey]R, len(records)), pvs: make(map[string]R, len(records))}
	var gaps []Gap
	for _, r := range records {
		v := r.Volume()
		double := false
		if v.Claim != "" {
			double = put(x.claims, claimKey{v.Namespace, v.Claim}, r)
		}
		if v.PV != "" {
			double = put(x.pvs, v.PV, r) || double
		}
		if double {
			gaps = append(gaps, Gap{Volume: v, Object: "record", Reason: Duplicate})
		}
	}
	return x, gaps
}

func put[K comparable, R any](m map[K]R, key K, r R) (double bool) {
	if _, double = m[key]; !double {
		m[key] = r
	}
	return double
}

// ByClaim returns the record of a claim.
func (x *Index[R]) ByClaim(namespace, name string) (R, bool) {
	r, ok := x.claims[claimKey{namespace, name}]
	return r, ok
}

// ByPV returns the record of a persistent volume.
func (x *Index[R]) ByPV(name string) (R, bool) {
	r, ok := x.pvs[name]
	return r, ok
}

// PVOf returns the name of a claim's persistent volume. It is false when the claim has no record or the record no volume.
func (x *Index[R]) PVOf(namespace, claim string) (string, bool) {
	r, ok := x.ByClaim(namespace, claim)
	if !ok {
		return "", false
	}
	pv := r.Volume().PV
	return pv, pv != ""
}

// ClaimOf returns the claim of a persistent volume. It is false when the volume has no record or the record no claim.
func (x *Index[R]) ClaimOf(pv string) (namespace, claim string, ok bool) {
	r, ok := x.ByPV(pv)
	if !ok {
		return "", "", false
	}
	v := r.Volume()
	return v.Namespace, v.Claim, v.Claim != ""
}
