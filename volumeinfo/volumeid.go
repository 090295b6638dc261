package volumeinfo

import "cmp"

// VolumeID identifies a volume by its claim, its persistent volume or both. Fields may be empty; comparable.
type VolumeID struct {
	Namespace, Claim string
	ClaimUID         string
	PV               string
}

// String returns NAMESPACE/CLAIM, else the persistent volume's name, for people.
func (v VolumeID) String() string {
	switch {
	case v.Claim != "":
		return v.Namespace + "/" + v.Claim
	case v.PV != "":
		return "pv " + v.PV
	case v.ClaimUID != "":
		return "claim uid " + v.ClaimUID
	case v.Namespace != "":
		return v.Namespace + "/?"
	}
	return "?"
}

// Compare orders volumes by namespace, claim, persistent volume and claim UID.
func (v VolumeID) Compare(w VolumeID) int {
	return cmp.Or(cmp.Compare(v.Namespace, w.Namespace), cmp.Compare(v.Claim, w.Claim),
		cmp.Compare(v.PV, w.PV), cmp.Compare(v.ClaimUID, w.ClaimUID))
}
