package csisnapshot

import "cmp"

// Ref names a VolumeSnapshot.
type Ref struct {
	Namespace string
	Name      string
}

// String is NAMESPACE/NAME.
func (r Ref) String() string { return r.Namespace + "/" + r.Name }

// Compare orders by namespace, then name.
func (r Ref) Compare(other Ref) int {
	return cmp.Or(cmp.Compare(r.Namespace, other.Namespace), cmp.Compare(r.Name, other.Name))
}

// Ref is the object's namespace and name.
func (m Meta) Ref() Ref { return Ref{Namespace: m.Namespace, Name: m.Name} }
