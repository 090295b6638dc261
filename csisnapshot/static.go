package csisnapshot

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// VolumeRecord is what has to be known of a physical snapshot to put it into a cluster again: what a backup writes down
// before its objects are released.
type VolumeRecord struct {
	// Driver and Handle name the physical snapshot. Both are required.
	Driver, Handle string
	// Class is the snapshot class, from which the stack takes secrets. Empty: none is named.
	Class string
	// GroupHandle is the handle of the group that the snapshot was cut with; empty if there was none.
	GroupHandle string
	// SourceVolumeMode is the mode of the volume that was cut. A restore into a claim of another mode is refused by the stack
	// unless an annotation allows it. Nil: the content did not say, as those of old releases of the stack, and none is written.
	SourceVolumeMode *corev1.PersistentVolumeMode
	// Annotations are those of the content. Secrets and the group stand in them; what the stack's controllers keep for
	// themselves, and what does not belong to the stack, is not taken over.
	Annotations map[string]string
	// Claim is the claim that was backed up. It may be left zero; [Snapshotter.Expire] takes the namespace of the
	// reference from it.
	Claim ClaimRef
}

// RecordOf is the record of a content that has a handle. Its error says that there is none. Claim is left to the caller.
func RecordOf(vsc Content) (VolumeRecord, error) {
	r := VolumeRecord{Driver: vsc.Driver, Handle: vsc.physical(), Annotations: stackAnnotations(vsc.Annotations)}
	if vsc.Class != nil {
		r.Class = *vsc.Class
	}
	if vsc.SourceVolumeMode != nil {
		r.SourceVolumeMode = new(*vsc.SourceVolumeMode)
	}
	for _, key := range groupKeys {
		if h := vsc.Annotations[key]; h != "" {
			r.GroupHandle = h
		}
	}
	if err := r.Validate(); err != nil {
		return VolumeRecord{}, fmt.Errorf("content %s: %w", vsc.Name, err)
	}
	return r, nil
}

// Validate reports every field that is missing.
func (r VolumeRecord) Validate() error {
	var faults []error
	if r.Driver == "" {
		faults = append(faults, fmt.Errorf("record of %shandle %q: Driver is empty", r.claimText(), r.Handle))
	}
	if r.Handle == "" {
		faults = append(faults, fmt.Errorf("record of %sdriver %q: Handle is empty", r.claimText(), r.Driver))
	}
	return errors.Join(faults...)
}

// claimText names the claim of the record, if it has one, in front of the physical snapshot.
func (r VolumeRecord) claimText() string {
	if r.Claim.Name == "" {
		return ""
	}
	return "claim " + r.Claim.Namespace + "/" + r.Claim.Name + " of "
}

// StaticPair is a content made by hand and the snapshot that is bound to it.
type StaticPair struct {
	Content  Content
	Snapshot Snapshot
}

// Static builds the pair through which a physical snapshot is restored in the namespace, which may be another than the
// backup's. It is pure, and the same arguments give the same names. Owner is who restores.
//
// The content says Retain and is marked as borrowed: neither the deletion of the namespace nor [Snapshotter.Destroy] and
// [Snapshotter.Sweep] of this owner delete the physical snapshot, which is the backup's. The class, the annotations that
// name secrets, the group handle and the mode of the volume are kept. The errors name the field that cannot be used.
func (n Names) Static(owner Owner, namespace string, r VolumeRecord) (StaticPair, error) {
	faults := []error{owner.Validate(), r.Validate(), n.Validate()}
	if msgs := validation.IsDNS1123Label(namespace); len(msgs) > 0 {
		faults = append(faults, fmt.Errorf("namespace %q: %s", namespace, msgs[0]))
	}
	if err := errors.Join(faults...); err != nil {
		return StaticPair{}, fmt.Errorf("static content: %w", err)
	}
	p := n.static(owner, namespace, r, DeletionPolicyRetain)
	p.Content.Annotations[n.borrowedKey()] = "true"
	return p, nil
}

// static builds the pair. The names of both begin with the owner's prefix, so that each is attributable without the other.
func (n Names) static(owner Owner, namespace string, r VolumeRecord, policy DeletionPolicy) StaticPair {
	name := n.ownerPrefix(owner.UID) + hash(strings.Join([]string{"static", namespace, r.Driver, r.Handle}, "\x00"))
	p := StaticPair{
		Content: Content{
			Meta:     Meta{Name: name, Labels: n.Labels(owner, r.Claim), Annotations: n.Annotations(owner, r.Claim)},
			Snapshot: SnapshotRef{Namespace: namespace, Name: name},
			Driver:   r.Driver, DeletionPolicy: policy, SnapshotHandle: &r.Handle,
		},
		Snapshot: Snapshot{
			Meta:          Meta{Namespace: namespace, Name: name, Labels: n.Labels(owner, r.Claim), Annotations: n.Annotations(owner, r.Claim)},
			SourceContent: name,
		},
	}
	maps.Copy(p.Content.Annotations, stackAnnotations(r.Annotations))
	if r.GroupHandle != "" {
		for _, key := range groupKeys {
			p.Content.Annotations[key] = r.GroupHandle
		}
	}
	if r.SourceVolumeMode != nil {
		p.Content.SourceVolumeMode = new(*r.SourceVolumeMode)
	}
	if r.Class != "" {
		p.Content.Class, p.Snapshot.Class = new(r.Class), new(r.Class)
	}
	return p
}

// groupKeys are the annotations of a content that name its group; releases of the stack differ in the domain.
var groupKeys = []string{
	"groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle",
	"groupsnapshot.storage.kubernetes.io/volumeGroupSnapshotHandle",
}

// stackAnnotations are those that a content needs of another: the stack's, without the marks of work that was going on.
func stackAnnotations(all map[string]string) map[string]string {
	kept := map[string]string{}
	for key, value := range all {
		domain, name, _ := strings.Cut(key, "/")
		switch domain {
		case "snapshot.storage.kubernetes.io", "groupsnapshot.storage.kubernetes.io", "groupsnapshot.storage.k8s.io", "csi.storage.k8s.io":
			if !strings.HasPrefix(name, "volumesnapshot-being-") {
				kept[key] = value
			}
		}
	}
	return kept
}

// borrowedKey is the annotation of a content whose physical snapshot is another's.
func (n Names) borrowedKey() string { return n.key("borrowed") }

// borrowed reports whether the physical snapshot of the content must outlive it.
func (n Names) borrowed(vsc *Content) bool {
	return vsc != nil && vsc.Annotations[n.borrowedKey()] != ""
}

// physical is the handle of the physical snapshot, also of a content made by hand that nobody has looked at; empty while
// there is none.
func (c *Content) physical() string {
	if h := c.Handle(); h != "" || c == nil || c.SnapshotHandle == nil {
		return h
	}
	return *c.SnapshotHandle
}
