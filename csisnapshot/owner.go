package csisnapshot

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// Owner is the backup that snapshots are taken for. Its UID is what decides whose an object is; namespace and name are
// written down for people.
type Owner struct {
	UID       types.UID
	Namespace string // may be empty, for cluster-scoped owners
	Name      string
}

// Validate reports what is missing, naming the field.
func (o Owner) Validate() error {
	switch {
	case o.UID == "":
		return fmt.Errorf("owner %q: UID is empty", o.Namespace+"/"+o.Name)
	case o.Name == "":
		return fmt.Errorf("owner with UID %q: Name is empty", o.UID)
	default:
		return nil
	}
}
