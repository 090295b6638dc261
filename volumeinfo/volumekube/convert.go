package volumekube

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

func converted[A, B any](items []A, convert func(A) B) []B {
	out := make([]B, 0, len(items))
	for _, item := range items {
		out = append(out, convert(item))
	}
	return out
}

func claim(pvc corev1.PersistentVolumeClaim) volumeinfo.Claim {
	return volumeinfo.Claim{Namespace: pvc.Namespace, Name: pvc.Name, UID: string(pvc.UID), PV: pvc.Spec.VolumeName}
}

func volume(pv corev1.PersistentVolume) volumeinfo.PV {
	out := volumeinfo.PV{Name: pv.Name, ReclaimPolicy: string(pv.Spec.PersistentVolumeReclaimPolicy), Labels: maps.Clone(pv.Labels)}
	if ref := pv.Spec.ClaimRef; ref != nil {
		out.ClaimNamespace, out.ClaimName, out.ClaimUID = ref.Namespace, ref.Name, string(ref.UID)
	}
	if pv.Spec.CSI != nil {
		out.Driver = pv.Spec.CSI.Driver
	}
	return out
}

func skip(s csisnapshot.Skip) volumeinfo.Skip {
	return volumeinfo.Skip{Namespace: s.Namespace, Claim: s.Claim, PV: s.PV, Reason: s.Reason}
}

func (c *collector) snapshot(vs csisnapshot.Snapshot) volumeinfo.Snapshot {
	out := volumeinfo.Snapshot{
		Namespace: vs.Namespace, Name: vs.Name, UID: string(vs.UID),
		OwnerUID: string(c.opts.Names.OwnerOf(vs.Meta)), ClaimUID: string(c.opts.Names.ClaimUID(vs.Meta)),
	}
	if vs.Claim != "" {
		out.Claim = &vs.Claim
	}
	if vs.SourceContent != "" {
		out.Content = &vs.SourceContent
	}
	if s := vs.Status; s != nil {
		if s.BoundContent != nil {
			out.Content = s.BoundContent
		}
		out.ReadyToUse, out.RestoreSize, out.CreationTime = s.ReadyToUse, s.RestoreSize, s.CreationTime
		if s.Error != nil && s.Error.Message != nil {
			out.Error = *s.Error.Message
		}
	}
	return out
}

func content(vsc csisnapshot.Content) volumeinfo.Content {
	out := volumeinfo.Content{
		Name: vsc.Name, SnapshotUID: string(vsc.Snapshot.UID), ResourceVersion: vsc.ResourceVersion, Driver: vsc.Driver, Handle: vsc.SnapshotHandle,
	}
	if s := vsc.Status; s != nil {
		if s.Handle != nil {
			out.Handle = s.Handle
		}
		out.ReadyToUse, out.RestoreSize, out.CreationTime = s.ReadyToUse, s.RestoreSize, s.CreationTime
	}
	return out
}
