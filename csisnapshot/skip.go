package csisnapshot

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// SkipCode is why a claim cannot be snapshotted, for programs.
type SkipCode string

const (
	// SkipNotBound is a claim that has no volume yet.
	SkipNotBound SkipCode = "NotBound"
	// SkipLost is a claim whose volume is gone.
	SkipLost SkipCode = "Lost"
	// SkipMissingVolume is a bound claim whose persistent volume was not found.
	SkipMissingVolume SkipCode = "MissingVolume"
	// SkipForeignVolume is a bound claim whose persistent volume is bound to another claim.
	SkipForeignVolume SkipCode = "ForeignVolume"
	// SkipNotCSI is a volume that no CSI driver made.
	SkipNotCSI SkipCode = "NotCSI"
)

// Skip is a claim that cannot be snapshotted as it is. It is not an error, and it uses no slot of any limit.
type Skip struct {
	Namespace, Claim string
	Code             SkipCode
	// Reason is for people, as "not CSI (nfs)" or "not bound (Pending)".
	Reason string
	// PV is the name of the persistent volume. Empty when the claim has none.
	PV string
}

// skipOf says why the claim cannot be snapshotted; ok is false when it can. pv is nil when there is no such volume.
func skipOf(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) (skip Skip, ok bool) {
	skip = Skip{Namespace: claim.Namespace, Claim: claim.Name, PV: claim.Spec.VolumeName}
	switch {
	case claim.Status.Phase == corev1.ClaimLost:
		skip.Code, skip.Reason = SkipLost, "volume lost"
	case claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName == "":
		skip.Code = SkipNotBound
		skip.Reason = fmt.Sprintf("not bound (%s)", cmp.Or(string(claim.Status.Phase), "no status"))
	case pv == nil:
		skip.Code = SkipMissingVolume
		skip.Reason = fmt.Sprintf("volume %s does not exist", claim.Spec.VolumeName)
	case !claimedBy(pv, claim):
		skip.Code = SkipForeignVolume
		skip.Reason = fmt.Sprintf("volume %s belongs to another claim", pv.Name)
	case pv.Spec.CSI == nil:
		skip.Code = SkipNotCSI
		skip.Reason = fmt.Sprintf("not CSI (%s)", volumeKind(pv))
	case pv.Spec.CSI.Driver == "":
		skip.Code = SkipNotCSI
		skip.Reason = "not CSI (no driver named)"
	default:
		return Skip{}, false
	}
	return skip, true
}

// claimedBy reports whether the volume's claimRef is this claim. A reference without a UID is compared by name.
func claimedBy(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	ref := pv.Spec.ClaimRef
	if ref == nil || ref.Namespace != claim.Namespace || ref.Name != claim.Name {
		return false
	}
	return ref.UID == "" || ref.UID == claim.UID
}

// volumeKind is the name of the field of the volume's source.
func volumeKind(pv *corev1.PersistentVolume) string {
	s := pv.Spec.PersistentVolumeSource
	kinds := []struct {
		set  bool
		name string
	}{
		{s.NFS != nil, "nfs"},
		{s.HostPath != nil, "hostPath"},
		{s.Local != nil, "local"},
		{s.ISCSI != nil, "iscsi"},
		{s.FC != nil, "fc"},
		{s.AWSElasticBlockStore != nil, "awsElasticBlockStore"},
		{s.GCEPersistentDisk != nil, "gcePersistentDisk"},
		{s.AzureDisk != nil, "azureDisk"},
		{s.AzureFile != nil, "azureFile"},
		{s.VsphereVolume != nil, "vsphereVolume"},
		{s.Cinder != nil, "cinder"},
		{s.CephFS != nil, "cephfs"},
		{s.RBD != nil, "rbd"},
		{s.Glusterfs != nil, "glusterfs"},
		{s.FlexVolume != nil, "flexVolume"},
		{s.Flocker != nil, "flocker"},
		{s.PhotonPersistentDisk != nil, "photonPersistentDisk"},
		{s.PortworxVolume != nil, "portworxVolume"},
		{s.Quobyte != nil, "quobyte"},
		{s.ScaleIO != nil, "scaleIO"},
		{s.StorageOS != nil, "storageos"},
	}
	for _, k := range kinds {
		if k.set {
			return k.name
		}
	}
	return "unknown source"
}
