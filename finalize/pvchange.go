package finalize

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

// PVChange is what is written to a persistent volume. The zero value is nothing.
type PVChange struct {
	// ReclaimPolicy is the new policy. Empty: it stays.
	ReclaimPolicy corev1.PersistentVolumeReclaimPolicy
	// Labels are set, beside those that the persistent volume has. None is ever removed.
	Labels map[string]string
}

// changeOf returns what a persistent volume lacks of what was saved, and a note for each saved label that it does not get,
// because the system or the driver gave it another value, or its node affinity speaks against it.
func changeOf(saved volumeinfo.PVInfo, pv *corev1.PersistentVolume) (PVChange, []string) {
	var change PVChange
	var notes []string
	if policy := corev1.PersistentVolumeReclaimPolicy(saved.ReclaimPolicy); policy != pv.Spec.PersistentVolumeReclaimPolicy {
		change.ReclaimPolicy = policy
	}
	affinity := affinityOf(pv)
	for _, key := range slices.Sorted(maps.Keys(saved.Labels)) {
		value := saved.Labels[key]
		has, there := pv.Labels[key]
		rules, placed := affinity[key]
		switch {
		case there && has == value:
		case there && (placed || ofKubernetes(key)):
			notes = append(notes, fmt.Sprintf("label %s of persistent volume %s stays %q; it was saved as %q", key, pv.Name, has, value))
		case placed && !slices.ContainsFunc(rules, func(r corev1.NodeSelectorRequirement) bool { return admits(r, value) }):
			notes = append(notes, fmt.Sprintf("label %s=%s is not given back to persistent volume %s, whose node affinity is %s", key, value, pv.Name, describe(rules)))
		default:
			if change.Labels == nil {
				change.Labels = map[string]string{}
			}
			change.Labels[key] = value
		}
	}
	return change, notes
}

// affinityOf returns what a persistent volume's node affinity asks of each key that it names.
func affinityOf(pv *corev1.PersistentVolume) map[string][]corev1.NodeSelectorRequirement {
	out := map[string][]corev1.NodeSelectorRequirement{}
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return out
	}
	for _, term := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for _, e := range term.MatchExpressions {
			out[e.Key] = append(out[e.Key], e)
		}
	}
	return out
}

// admits reports whether a node with the label's value can have the volume. Numbers are not compared: Gt and Lt admit all.
func admits(r corev1.NodeSelectorRequirement, value string) bool {
	switch r.Operator {
	case corev1.NodeSelectorOpIn:
		return slices.Contains(r.Values, value)
	case corev1.NodeSelectorOpNotIn:
		return !slices.Contains(r.Values, value)
	case corev1.NodeSelectorOpDoesNotExist:
		return false
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
	}
	return true
}

func describe(rules []corev1.NodeSelectorRequirement) string {
	var all []string
	for _, r := range rules {
		all = append(all, strings.TrimSpace(string(r.Operator)+" "+strings.Join(r.Values, ", ")))
	}
	return strings.Join(all, " or ")
}

// ofKubernetes reports whether a label key is in a domain of Kubernetes.
func ofKubernetes(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	if !ok {
		return false
	}
	for _, d := range []string{"kubernetes.io", "k8s.io"} {
		if domain == d || strings.HasSuffix(domain, "."+d) {
			return true
		}
	}
	return false
}

// against returns the change without what the persistent volume has already.
func (c PVChange) against(pv *corev1.PersistentVolume) PVChange {
	if c.ReclaimPolicy == pv.Spec.PersistentVolumeReclaimPolicy {
		c.ReclaimPolicy = ""
	}
	labels := maps.Clone(c.Labels)
	maps.DeleteFunc(labels, func(key, value string) bool { has, ok := pv.Labels[key]; return ok && has == value })
	if c.Labels = labels; len(labels) == 0 {
		c.Labels = nil
	}
	return c
}

func (c PVChange) empty() bool { return c.ReclaimPolicy == "" && len(c.Labels) == 0 }

// patch returns the change as a merge patch of the persistent volume that was read.
func (c PVChange) patch(pv *corev1.PersistentVolume) ([]byte, error) {
	meta := map[string]any{}
	if pv.ResourceVersion != "" { // fakes have none
		meta["resourceVersion"] = pv.ResourceVersion
	}
	if pv.UID != "" {
		meta["uid"] = pv.UID
	}
	if len(c.Labels) > 0 {
		meta["labels"] = c.Labels
	}
	patch := map[string]any{"metadata": meta}
	if c.ReclaimPolicy != "" {
		patch["spec"] = map[string]any{"persistentVolumeReclaimPolicy": c.ReclaimPolicy}
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("patch of persistent volume %s: %w", pv.Name, err)
	}
	return data, nil
}
