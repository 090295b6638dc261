package csisnapshot

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Plan says which volumes of a namespace are cut, in which batches and in which order, which are not, and why.
// It is plain data: a caller may inspect it, print it, or take batches out of it before handing it to [Snapshotter.Cut].
// It is a picture of the moment it was made; Cut reads each hooked pod again before it freezes it.
type Plan struct {
	// Namespace is the namespace planned. It is informative; batches carry the namespaces of their own.
	Namespace string
	// Batches in the order in which they are cut: hooked ones first, the unhooked one last.
	Batches []Batch
	// Skipped are claims that cannot be snapshotted, sorted by claim.
	Skipped []Skip
	// Faults are claims that could be snapshotted but for a mistake that a person has to correct, sorted by claim.
	Faults []Fault
}

// Batch is a set of pods that are frozen together and of volumes that are cut together.
type Batch struct {
	// Pods in the order of their names. Empty when the volumes belong to no running pod.
	Pods []Pod
	// Volumes in the order of their claims.
	Volumes []Volume
	// Hooked reports whether any pod has hooks that can run.
	Hooked bool
}

// Pod is a pod of a batch.
type Pod struct {
	PodRef

	// Hooked reports whether hooks will run in the pod.
	Hooked bool
	// Controller identifies what controls the pod: pods of the same one are not frozen together. Empty: nothing does.
	Controller string
	// Claims are the names of the pod's planned claims, sorted.
	Claims []string
	// Note says why a pod that has hooks counts as unhooked. Empty otherwise.
	Note string
}

// Volume is a bound claim whose CSI volume will be cut.
type Volume struct {
	Namespace, Claim string
	ClaimUID         types.UID
	// PV is the name of the persistent volume, Driver the CSI driver that made it.
	PV, Driver string
	// Class is the VolumeSnapshotClass chosen.
	Class string
	// PVReclaimPolicy and PVLabels are the persistent volume's, kept for the record of the backup.
	PVReclaimPolicy string
	PVLabels        map[string]string
	// ClaimLabels are labels of the claim that its snapshot gets beside the library's.
	ClaimLabels map[string]string
}

// key identifies the volume in a run.
func (v Volume) key() claimKey { return claimKey{v.Namespace, v.Claim} }

// claimKey is the namespace and name of a claim.
type claimKey struct{ namespace, name string }

func (k claimKey) String() string { return k.namespace + "/" + k.name }

// Fault is a claim that cannot be planned until a person corrects something: no class, an ambiguous one, one of another
// driver, hooks that cannot be read.
type Fault struct { //nolint:errname // it is an entry of a plan, which is an error too
	Namespace, Claim string
	ClaimUID         types.UID
	// PV is the name of the persistent volume, Driver its CSI driver.
	PV, Driver string
	// Candidates are the names of the classes that could have been meant, sorted.
	Candidates []string
	// Err is the mistake; a class that could not be chosen is a [*ClassError].
	Err error
}

// Error names the claim and the mistake.
func (f Fault) Error() string { return fmt.Sprintf("claim %s/%s: %v", f.Namespace, f.Claim, f.Err) }

// Unwrap returns the mistake.
func (f Fault) Unwrap() error { return f.Err }

// Err joins the plan's faults, or is nil when there are none.
func (p *Plan) Err() error {
	errs := make([]error, 0, len(p.Faults))
	for _, f := range p.Faults {
		errs = append(errs, f)
	}
	return errors.Join(errs...)
}

// Volumes returns the number of volumes in all batches.
func (p *Plan) Volumes() int {
	n := 0
	for _, b := range p.Batches {
		n += len(b.Volumes)
	}
	return n
}

// String prints the plan for people, one batch a paragraph. The format is not a contract.
func (p *Plan) String() string {
	var b strings.Builder
	for i, batch := range p.Batches {
		fmt.Fprintf(&b, "batch %d%s\n", i+1, batch.title())
		for _, pod := range batch.Pods {
			fmt.Fprintf(&b, "  pod %s%s\n", pod.Name, pod.suffix())
		}
		for _, v := range batch.Volumes {
			fmt.Fprintf(&b, "  volume %s%s  class %s  driver %s\n", v.Claim, batch.users(v), v.Class, v.Driver)
		}
	}
	for _, s := range p.Skipped {
		fmt.Fprintf(&b, "skipped %s: %s\n", s.Claim, s.Reason)
	}
	for _, f := range p.Faults {
		fmt.Fprintf(&b, "fault %s: %v\n", f.Claim, f.Err)
	}
	if b.Len() == 0 {
		return "nothing to do\n"
	}
	return b.String()
}

// title says whether the batch freezes anything.
func (b Batch) title() string {
	if b.Hooked {
		return " (hooks)"
	}
	return " (no hooks)"
}

// users lists the pods that use the volume.
func (b Batch) users(v Volume) string {
	var names []string
	for _, pod := range b.Pods {
		if pod.Namespace == v.Namespace && pod.uses(v.Claim) {
			names = append(names, pod.Name)
		}
	}
	if len(names) == 0 {
		return " (no pod)"
	}
	return " (" + strings.Join(names, ", ") + ")"
}

// uses reports whether the pod mounts the claim.
func (p Pod) uses(claim string) bool {
	return slices.Contains(p.Claims, claim)
}

// suffix says whether the pod is frozen, or why it is not.
func (p Pod) suffix() string {
	switch {
	case p.Hooked:
		return " (hooks)"
	case p.Note != "":
		return " (hooks do not run: " + p.Note + ")"
	default:
		return ""
	}
}
