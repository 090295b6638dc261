package driver

import (
	"context"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/sheetanchor/sheetanchor/backuptest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/types"
)

// CreateSnapshot implements [csi.ControllerServer].
func (s *service) CreateSnapshot(ctx context.Context, req *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	switch {
	case req.GetName() == "":
		return nil, invalid("name", "must be given")
	case req.GetSourceVolumeId() == "":
		return nil, invalid("source_volume_id", "must be given")
	}
	if p, found := s.heldName(req.GetName()); found && p.VolumeHandle == req.GetSourceVolumeId() {
		return &csi.CreateSnapshotResponse{Snapshot: s.snapshot(s.store.get(), p)}, nil // its volume may be gone
	}
	p, err := s.cut(ctx, req.GetName(), req.GetSourceVolumeId())
	if err != nil {
		return nil, err
	}
	return &csi.CreateSnapshotResponse{Snapshot: s.snapshot(s.store.get(), p)}, nil
}

// cut takes a snapshot as the script of the volume's claim wants it.
func (s *service) cut(ctx context.Context, name, volume string) (backuptest.StoredSnapshot, error) {
	v, found := s.store.get().Volumes[volume]
	if !found {
		return backuptest.StoredSnapshot{}, status.Errorf(codes.NotFound, "source volume %s does not exist", volume)
	}
	script, err := s.script(ctx, v.Claim, func(sc Script) bool { return sc.HangCreate })
	if err != nil {
		return backuptest.StoredSnapshot{}, err
	}
	namespace, claim, _ := strings.Cut(v.Claim, "/")
	p, err := s.storage.CreateSnapshot(ctx, backuptest.CreateRequest{
		Name: name, VolumeHandle: volume, Driver: s.name, Size: v.Bytes, Script: script.Script,
		Claim: types.NamespacedName{Namespace: namespace, Name: claim},
	})
	return p, asStatus(err)
}

// snapshot returns a stored snapshot in the form of an answer.
func (s *service) snapshot(st *state, p backuptest.StoredSnapshot) *csi.Snapshot {
	return &csi.Snapshot{
		SnapshotId: p.Handle, SourceVolumeId: p.VolumeHandle, SizeBytes: p.Size, CreationTime: timestamppb.New(p.CutAt),
		ReadyToUse: p.ReadyToUse, GroupSnapshotId: st.groupOf(p.Handle),
	}
}

// DeleteSnapshot implements [csi.ControllerServer].
func (s *service) DeleteSnapshot(ctx context.Context, req *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	id := req.GetSnapshotId()
	if id == "" {
		return nil, invalid("snapshot_id", "must be given")
	}
	if group := s.store.get().groupOf(id); group != "" {
		return nil, invalid("snapshot_id", "snapshot "+id+" is part of group snapshot "+group)
	}
	if err := s.remove(ctx, id); err != nil {
		return nil, err
	}
	return &csi.DeleteSnapshotResponse{}, nil
}

// remove deletes a snapshot as the script of its claim wants it. One that is not there is deleted.
func (s *service) remove(ctx context.Context, id string) error {
	p, found := s.held(id)
	if !found {
		return asStatus(s.storage.DeleteSnapshot(ctx, id, backuptest.Script{}))
	}
	script, err := s.script(ctx, claimOf(p), func(sc Script) bool { return sc.HangDelete })
	if err != nil {
		return err
	}
	return asStatus(s.storage.DeleteSnapshot(ctx, id, script.Script))
}
