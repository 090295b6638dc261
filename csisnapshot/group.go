package csisnapshot

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Inputs is what [Group] plans from. Order within the slices does not matter; nothing in them is changed.
type Inputs struct {
	// Namespace is copied to the plan.
	Namespace string
	// Pods of the namespace, whatever their phase.
	Pods []corev1.Pod
	// Claims to plan.
	Claims []corev1.PersistentVolumeClaim
	// Volumes that the claims may be bound to; others are ignored.
	Volumes []corev1.PersistentVolume
	// Classes to choose from.
	Classes []Class
	// ClassAnnotations are the backup's annotations, as [Options.ClassAnnotations].
	ClassAnnotations map[string]string
	// Names give the annotations and labels that choose a class. The zero value is the library's own.
	Names Names
	// ClaimLabels are the keys of the labels that go from a claim to its snapshot, as [Options.ClaimLabels].
	ClaimLabels []string
	// Hooks returns a pod's hooks. Nil: no pod has any.
	Hooks func(pod *corev1.Pod) (PodHooks, error)
	// Key puts pods together. Nil: every pod by itself.
	Key BatchKey
}

// Group plans a namespace. It is pure: the same inputs give the same plan.
//
// Claims that are not bound to a volume of a CSI driver are skipped; claims without one clear class, and claims of pods
// whose hooks cannot be read, are faults. Pods that share a volume, or a key, share a batch. A batch with a pod whose
// hooks can run is hooked; the volumes of all the other pods and those of no pod form one batch, the last.
// Succeeded and Failed pods do not group. A pod that is not Running, or whose hooks name a container that does not run,
// counts as unhooked.
func Group(in Inputs) *Plan {
	plan := &Plan{Namespace: in.Namespace}
	volumes := plan.sift(in)
	users := plan.users(in, volumes)
	plan.Batches = batches(users, volumes)
	plan.sort()
	return plan
}

// sift splits the claims into volumes, skips and faults.
func (p *Plan) sift(in Inputs) map[claimKey]Volume {
	pvs := make(map[string]*corev1.PersistentVolume, len(in.Volumes))
	for i := range in.Volumes {
		pvs[in.Volumes[i].Name] = &in.Volumes[i]
	}
	volumes := make(map[claimKey]Volume, len(in.Claims))
	for i := range in.Claims {
		claim := &in.Claims[i]
		pv := pvs[claim.Spec.VolumeName]
		if skip, ok := skipOf(claim, pv); ok {
			p.Skipped = append(p.Skipped, skip)
			continue
		}
		v := Volume{
			Namespace: claim.Namespace, Claim: claim.Name, ClaimUID: claim.UID,
			PV: pv.Name, Driver: pv.Spec.CSI.Driver,
			PVReclaimPolicy: string(pv.Spec.PersistentVolumeReclaimPolicy), PVLabels: pv.Labels,
		}
		class, err := SelectClass(in.Classes, v.Driver, claim.Annotations, in.ClassAnnotations, in.Names)
		if err != nil {
			p.Faults = append(p.Faults, faultOf(v, err))
			continue
		}
		v.Class, v.ClaimLabels = class, chosen(claim.Labels, in.ClaimLabels)
		volumes[v.key()] = v
	}
	return volumes
}

// chosen are the labels of those keys; nil if there are none.
func chosen(labels map[string]string, keys []string) map[string]string {
	var found map[string]string
	for _, key := range keys {
		if value, ok := labels[key]; ok {
			if found == nil {
				found = map[string]string{}
			}
			found[key] = value
		}
	}
	return found
}

// user is a pod that mounts at least one planned volume.
type user struct {
	pod    Pod
	key    string
	claims []claimKey
}

// users returns the pods that group. It turns the volumes of pods whose hooks cannot be read into faults.
func (p *Plan) users(in Inputs, volumes map[claimKey]Volume) []user {
	users := make([]user, 0, len(in.Pods))
	sorted := sortedPods(in.Pods)
	helped := helpedPods(sorted)
	for _, pod := range sorted {
		claims := plannedClaims(volumes, pod, helped[pod.UID]...)
		if len(claims) == 0 || ended(pod) {
			continue
		}
		u := user{pod: Pod{PodRef: refOf(pod), Controller: controllerOf(pod)}, claims: claims}
		hooks, err := podHooks(in.Hooks, pod)
		if err != nil {
			p.blame(volumes, claims, fmt.Errorf("hooks of pod %s: %w", u.pod.PodRef, err))
			continue
		}
		if !hooks.Empty() {
			u.pod.Note = cannotRun(pod, hooks)
			u.pod.Hooked = u.pod.Note == ""
		}
		if u.key, err = batchKey(in.Key, pod); err != nil {
			p.blame(volumes, claims, fmt.Errorf("batch key of pod %s: %w", u.pod.PodRef, err))
			continue
		}
		users = append(users, u)
	}
	for i := range users {
		users[i].keep(volumes)
	}
	return slices.DeleteFunc(users, func(u user) bool { return len(u.pod.Claims) == 0 })
}

// keep gives the pod those of its claims that did not become faults.
func (u *user) keep(volumes map[claimKey]Volume) {
	for _, c := range u.claims {
		if _, ok := volumes[c]; ok {
			u.pod.Claims = append(u.pod.Claims, c.name)
		}
	}
}

// blame turns volumes into faults.
func (p *Plan) blame(volumes map[claimKey]Volume, claims []claimKey, err error) {
	for _, c := range claims {
		if v, ok := volumes[c]; ok {
			p.Faults = append(p.Faults, faultOf(v, err))
			delete(volumes, c)
		}
	}
}

// sort puts everything into its documented order.
func (p *Plan) sort() {
	slices.SortFunc(p.Skipped, func(a, b Skip) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Claim, b.Claim))
	})
	slices.SortFunc(p.Faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Claim, b.Claim))
	})
}
