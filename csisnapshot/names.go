package csisnapshot

import (
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Names gives every name, label and annotation that the package writes. The same UIDs give the same names in every
// release: this is what a later process finds its snapshots by. The zero value uses the prefix "sheetanchor" and the
// domain "sheetanchor.io".
type Names struct {
	Prefix string // of object names; a DNS label of at most 28 characters. Defaults to "sheetanchor"
	Domain string // of label and annotation keys; a DNS subdomain. Defaults to "sheetanchor.io"
}

// ClaimRef names a PersistentVolumeClaim.
type ClaimRef struct {
	Namespace string
	Name      string
	UID       types.UID
}

const (
	defaultPrefix = "sheetanchor"
	defaultDomain = "sheetanchor.io"
	maxPrefix     = 28
	hashLength    = 16 // base32 characters, 80 bits
	hashedMark    = "sha256-"
)

// Validate reports every field that cannot be used.
func (n Names) Validate() error {
	n = n.withDefaults()
	var faults []error
	if len(n.Prefix) > maxPrefix {
		faults = append(faults, fmt.Errorf("Names.Prefix %q: longer than %d characters", n.Prefix, maxPrefix))
	} else if msgs := validation.IsDNS1123Label(n.Prefix); len(msgs) > 0 {
		faults = append(faults, fmt.Errorf("Names.Prefix %q: %s", n.Prefix, strings.Join(msgs, ", ")))
	}
	if msgs := validation.IsDNS1123Subdomain(n.Domain); len(msgs) > 0 {
		faults = append(faults, fmt.Errorf("Names.Domain %q: %s", n.Domain, strings.Join(msgs, ", ")))
	}
	return errors.Join(faults...)
}

// Snapshot is the name of the owner's snapshot of a claim: PREFIX-HASH(owner UID)-HASH(claim UID).
func (n Names) Snapshot(owner, claim types.UID) string {
	return n.ownerPrefix(owner) + hash(string(claim))
}

// ownerPrefix is what the names of all snapshots of an owner begin with.
func (n Names) ownerPrefix(owner types.UID) string {
	return n.withDefaults().Prefix + "-" + hash(string(owner)) + "-"
}

// OwnerLabel is the key of the label that holds the owner.
func (n Names) OwnerLabel() string { return n.key("owner") }

// OwnerSelector selects the owner's snapshots.
func (n Names) OwnerSelector(owner types.UID) string {
	return n.OwnerLabel() + "=" + LabelValue(string(owner))
}

// ClassKey is the key by which a snapshot class is chosen: an annotation of claims and backups, a label of classes.
func (n Names) ClassKey() string { return n.key("csi-volumesnapshot-class") }

// Labels are the labels of the owner's snapshot of a claim. No label of the claim is among them: tools that own objects
// by label would remove the snapshot.
func (n Names) Labels(owner Owner, claim ClaimRef) map[string]string {
	return map[string]string{
		n.OwnerLabel():     LabelValue(string(owner.UID)),
		n.key("claim-uid"): LabelValue(string(claim.UID)),
	}
}

// Annotations hold the full names behind the labels.
func (n Names) Annotations(owner Owner, claim ClaimRef) map[string]string {
	return map[string]string{
		n.key("owner-uid"):  string(owner.UID),
		n.key("owner-name"): strings.TrimPrefix(owner.Namespace+"/"+owner.Name, "/"),
		n.key("claim-uid"):  string(claim.UID),
		n.key("claim-name"): claim.Name,
	}
}

// NewSnapshot is the snapshot to create of a claim. An empty class takes the cluster's default.
func (n Names) NewSnapshot(owner Owner, claim ClaimRef, class string) Snapshot {
	s := Snapshot{
		Meta: Meta{
			Namespace:   claim.Namespace,
			Name:        n.Snapshot(owner.UID, claim.UID),
			Labels:      n.Labels(owner, claim),
			Annotations: n.Annotations(owner, claim),
		},
		Claim: claim.Name,
	}
	if class != "" {
		s.Class = &class
	}
	return s
}

// Owns reports whether the object carries this owner's UID, in the label and in the annotation.
func (n Names) Owns(owner types.UID, object Meta) bool {
	return owner != "" && object.Labels[n.OwnerLabel()] == LabelValue(string(owner)) &&
		object.Annotations[n.key("owner-uid")] == string(owner)
}

// OwnsName reports whether a snapshot's name is one that only this owner gives. It attributes a content whose
// snapshot is gone.
func (n Names) OwnsName(owner types.UID, name string) bool {
	return owner != "" && strings.HasPrefix(name, n.ownerPrefix(owner))
}

// OwnerOf is the UID of the object's owner, empty for objects that the library did not make.
func (n Names) OwnerOf(object Meta) types.UID {
	uid := types.UID(object.Annotations[n.key("owner-uid")])
	if !n.Owns(uid, object) {
		return ""
	}
	return uid
}

// ClaimUID is the UID of the claim that the snapshot was made of, empty if it is not written down.
func (n Names) ClaimUID(object Meta) types.UID {
	return types.UID(object.Annotations[n.key("claim-uid")])
}

func (n Names) key(name string) string { return n.withDefaults().Domain + "/" + name }

func (n Names) withDefaults() Names {
	if n.Prefix == "" {
		n.Prefix = defaultPrefix
	}
	if n.Domain == "" {
		n.Domain = defaultDomain
	}
	return n
}

// LabelValue is s where s is a legal label value, else a hash of it: legal, and distinct for every s.
func LabelValue(s string) string {
	if !strings.HasPrefix(s, hashedMark) && len(validation.IsValidLabelValue(s)) == 0 {
		return s
	}
	return hashedMark + encode(s)
}

func hash(s string) string { return encode(s)[:hashLength] }

func encode(s string) string {
	sum := sha256.Sum256([]byte(s))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))
}
