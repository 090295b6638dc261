package operations

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// maxUID is the longest UID a key may have; an apiserver's own have 36 characters.
const maxUID = 128

// Key names the backup or restore that a list of operations belongs to. The UID is part of it, so that an object which
// was deleted and made again under its old name never meets the old list. Keys are comparable.
type Key struct {
	// Namespace of the owner; empty for a cluster-scoped owner.
	Namespace string
	// Name of the owner.
	Name string
	// UID of the owner.
	UID types.UID
}

// String returns "namespace/name (uid)", for people.
func (k Key) String() string {
	return fmt.Sprintf("%s/%s (%s)", k.Namespace, k.Name, k.UID)
}

// Validate returns every fault of the key, each naming its field: the name must be one that a Kubernetes object can
// have, so that no path made of it leaves the store's prefix; so must the namespace, unless it is empty; the UID must
// have 1 to 128 letters, digits or ".:_-".
func (k Key) Validate() error {
	var faults []error
	for _, msg := range validation.IsDNS1123Subdomain(k.Name) {
		faults = append(faults, fmt.Errorf("key name %q: %s", k.Name, msg))
	}
	if k.Namespace != "" {
		for _, msg := range validation.IsDNS1123Label(k.Namespace) {
			faults = append(faults, fmt.Errorf("key namespace %q: %s", k.Namespace, msg))
		}
	}
	if uid := string(k.UID); uid == "" || len(uid) > maxUID || strings.ContainsFunc(uid, notUID) {
		faults = append(faults, fmt.Errorf("key UID %q: want 1 to %d letters, digits or \".:_-\"", uid, maxUID))
	}
	return errors.Join(faults...)
}

// notUID reports whether r may not stand in a UID.
func notUID(r rune) bool {
	letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	return !letter && (r < '0' || r > '9') && !strings.ContainsRune(".:_-", r)
}
