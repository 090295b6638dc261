package driver

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/sheetanchor/sheetanchor/backuptest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// CreateVolumeGroupSnapshot implements [csi.GroupControllerServer]. All members are cut or, when the script of one has an
// error, none stays. Cuts that are under way when the call ends go on, to be found by the next call of that name.
func (s *service) CreateVolumeGroupSnapshot(ctx context.Context, req *csi.CreateVolumeGroupSnapshotRequest) (*csi.CreateVolumeGroupSnapshotResponse, error) {
	volumes := slices.Sorted(slices.Values(req.GetSourceVolumeIds()))
	switch {
	case req.GetName() == "":
		return nil, invalid("name", "must be given")
	case len(volumes) == 0:
		return nil, invalid("source_volume_ids", "must be given")
	case len(slices.Compact(slices.Clone(volumes))) < len(volumes):
		return nil, invalid("source_volume_ids", "names a volume twice")
	}
	id := handle("group", req.GetName())
	leave, err := s.enter(id)
	if err != nil {
		return nil, err
	}
	defer leave()
	group, err := s.beginGroup(Group{ID: id, Name: req.GetName(), Volumes: volumes})
	if err == nil && len(group.Members) == 0 {
		group, err = s.cutGroup(ctx, group)
	}
	if err != nil {
		return nil, asStatus(err)
	}
	answer, err := s.group(group)
	if err != nil {
		return nil, err
	}
	return &csi.CreateVolumeGroupSnapshotResponse{GroupSnapshot: answer}, nil
}

// beginGroup keeps the name and the volumes of a group before anything is cut, or returns what is kept.
func (s *service) beginGroup(wanted Group) (Group, error) {
	st := s.store.get()
	if known, found := st.Groups[wanted.ID]; found {
		if !slices.Equal(known.Volumes, wanted.Volumes) {
			return Group{}, status.Errorf(codes.AlreadyExists, "group snapshot %s exists with other source volumes", wanted.Name)
		}
		return known, nil
	}
	for _, volume := range wanted.Volumes {
		if _, found := st.Volumes[volume]; !found {
			return Group{}, status.Errorf(codes.NotFound, "source volume %s does not exist", volume)
		}
	}
	return wanted, s.putGroup(wanted)
}

func (s *service) putGroup(g Group) error {
	return s.store.change(func(st *state) error {
		st.Groups[g.ID] = g
		return nil
	})
}

// cutGroup cuts all members side by side and keeps their handles.
func (s *service) cutGroup(ctx context.Context, g Group) (Group, error) {
	members := make([]string, len(g.Volumes))
	failures := make([]error, len(g.Volumes))
	var running sync.WaitGroup
	for i, volume := range g.Volumes {
		running.Go(func() {
			p, err := s.cut(ctx, g.Name+"/"+volume, volume)
			members[i], failures[i] = p.Handle, err
		})
	}
	running.Wait()
	failed := slices.IndexFunc(failures, func(err error) bool { return err != nil })
	if failed < 0 {
		g.Members = members
		return g, s.putGroup(g)
	}
	if ctx.Err() == nil {
		for _, member := range members {
			if member == "" {
				continue
			}
			if err := s.storage.DeleteSnapshot(ctx, member, backuptest.Script{}); err != nil {
				return Group{}, errors.Join(err, failures[failed])
			}
		}
	}
	return Group{}, failures[failed]
}

// group returns a group in the form of an answer: cut when its last member was, ready when all are.
func (s *service) group(g Group) (*csi.VolumeGroupSnapshot, error) {
	answer := &csi.VolumeGroupSnapshot{GroupSnapshotId: g.ID, ReadyToUse: len(g.Members) > 0}
	st := s.store.get()
	for _, id := range g.Members {
		p, found := s.held(id)
		if !found {
			return nil, status.Errorf(codes.Internal, "snapshot %s of group snapshot %s is gone", id, g.ID)
		}
		answer.Snapshots = append(answer.Snapshots, s.snapshot(st, p))
		answer.ReadyToUse = answer.ReadyToUse && p.ReadyToUse
		if at := timestamppb.New(p.CutAt); answer.CreationTime == nil || at.AsTime().After(answer.CreationTime.AsTime()) {
			answer.CreationTime = at
		}
	}
	return answer, nil
}

// GetVolumeGroupSnapshot implements [csi.GroupControllerServer].
func (s *service) GetVolumeGroupSnapshot(_ context.Context, req *csi.GetVolumeGroupSnapshotRequest) (*csi.GetVolumeGroupSnapshotResponse, error) {
	id := req.GetGroupSnapshotId()
	if id == "" {
		return nil, invalid("group_snapshot_id", "must be given")
	}
	g, found := s.store.get().Groups[id]
	if !found || len(g.Members) == 0 {
		return nil, status.Errorf(codes.NotFound, "group snapshot %s does not exist", id)
	}
	if err := sameMembers(g, req.GetSnapshotIds()); err != nil {
		return nil, err
	}
	answer, err := s.group(g)
	if err != nil {
		return nil, err
	}
	return &csi.GetVolumeGroupSnapshotResponse{GroupSnapshot: answer}, nil
}

// DeleteVolumeGroupSnapshot implements [csi.GroupControllerServer]. Members whose script refuses stay, and the group then too.
func (s *service) DeleteVolumeGroupSnapshot(ctx context.Context, req *csi.DeleteVolumeGroupSnapshotRequest) (*csi.DeleteVolumeGroupSnapshotResponse, error) {
	id := req.GetGroupSnapshotId()
	if id == "" {
		return nil, invalid("group_snapshot_id", "must be given")
	}
	leave, err := s.enter(id)
	if err != nil {
		return nil, err
	}
	defer leave()
	g, found := s.store.get().Groups[id]
	if !found {
		return &csi.DeleteVolumeGroupSnapshotResponse{}, nil
	}
	if err := sameMembers(g, req.GetSnapshotIds()); err != nil {
		return nil, err
	}
	for _, member := range g.Members {
		if err := s.remove(ctx, member); err != nil {
			return nil, err
		}
	}
	err = s.store.change(func(st *state) error {
		delete(st.Groups, id)
		return nil
	})
	return &csi.DeleteVolumeGroupSnapshotResponse{}, asStatus(err)
}

// sameMembers refuses a list of snapshots that are not the members; none at all is fine.
func sameMembers(g Group, ids []string) error {
	if len(ids) == 0 || slices.Equal(slices.Sorted(slices.Values(ids)), slices.Sorted(slices.Values(g.Members))) {
		return nil
	}
	return invalid("snapshot_ids", "are not the snapshots of group snapshot "+g.ID)
}
