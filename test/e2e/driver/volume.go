package driver

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const defaultBytes = 1 << 30

// CreateVolume implements [csi.ControllerServer].
func (s *service) CreateVolume(_ context.Context, req *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if req.GetName() == "" {
		return nil, invalid("name", "must be given")
	}
	if len(req.GetVolumeCapabilities()) == 0 {
		return nil, invalid("volume_capabilities", "must be given")
	}
	source, least, err := s.volumeSource(req.GetVolumeContentSource())
	if err != nil {
		return nil, err
	}
	size, err := sizeIn(req.GetCapacityRange(), least)
	if err != nil {
		return nil, err
	}
	var made Volume
	err = s.store.change(func(st *state) error {
		if known, found := st.volume(req.GetName()); found {
			made = known
			return sameVolume(known, req.GetCapacityRange(), source)
		}
		made = Volume{
			ID: handle("vol", req.GetName()), Name: req.GetName(), Bytes: size, Source: source, Made: s.clock(),
			Claim: joined(req.GetParameters(), claimNamespaceKey, claimNameKey),
		}
		st.Volumes[made.ID] = made
		return nil
	})
	if err != nil {
		return nil, asStatus(err)
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId: made.ID, CapacityBytes: made.Bytes, ContentSource: req.GetVolumeContentSource(),
	}}, nil
}

// volumeSource returns the handle of the snapshot to restore from and the bytes it needs, or "" and 0.
func (s *service) volumeSource(source *csi.VolumeContentSource) (string, int64, error) {
	if source == nil {
		return "", 0, nil
	}
	if source.GetSnapshot() == nil {
		return "", 0, invalid("volume_content_source", "only a snapshot can be a source")
	}
	id := source.GetSnapshot().GetSnapshotId()
	if id == "" {
		return "", 0, invalid("volume_content_source.snapshot.snapshot_id", "must be given")
	}
	p, found := s.held(id)
	if !found {
		return "", 0, status.Errorf(codes.NotFound, "snapshot %s does not exist", id)
	}
	if !p.ReadyToUse {
		return "", 0, status.Errorf(codes.Unavailable, "snapshot %s is not ready to use", id)
	}
	return id, p.Size, nil
}

// sizeIn returns the size for a new volume of at least that many bytes.
func sizeIn(r *csi.CapacityRange, least int64) (int64, error) {
	required, limit := r.GetRequiredBytes(), r.GetLimitBytes()
	switch {
	case required < 0:
		return 0, invalid("capacity_range.required_bytes", "is negative")
	case limit < 0:
		return 0, invalid("capacity_range.limit_bytes", "is negative")
	case limit > 0 && limit < required:
		return 0, invalid("capacity_range.limit_bytes", "is less than required_bytes")
	case required == 0 && least == 0 && limit > 0:
		return min(defaultBytes, limit), nil
	case required == 0 && least == 0:
		return defaultBytes, nil
	case required == 0:
		required = least
	}
	if required < least || limit > 0 && required > limit {
		return 0, status.Errorf(codes.OutOfRange, "the snapshot needs %d bytes", least)
	}
	return required, nil
}

// sameVolume refuses a request that a volume of its name does not fulfil.
func sameVolume(known Volume, r *csi.CapacityRange, source string) error {
	if known.Bytes < r.GetRequiredBytes() || r.GetLimitBytes() > 0 && known.Bytes > r.GetLimitBytes() {
		return status.Errorf(codes.AlreadyExists, "volume %s exists with %d bytes", known.Name, known.Bytes)
	}
	if known.Source != source {
		return status.Errorf(codes.AlreadyExists, "volume %s exists with another source", known.Name)
	}
	return nil
}

// DeleteVolume implements [csi.ControllerServer]. Snapshots of the volume stay.
func (s *service) DeleteVolume(_ context.Context, req *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	if req.GetVolumeId() == "" {
		return nil, invalid("volume_id", "must be given")
	}
	err := s.store.change(func(st *state) error {
		delete(st.Volumes, req.GetVolumeId())
		return nil
	})
	return &csi.DeleteVolumeResponse{}, asStatus(err)
}

// ValidateVolumeCapabilities implements [csi.ControllerServer]: every capability is fine.
func (s *service) ValidateVolumeCapabilities(_ context.Context, req *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	switch {
	case req.GetVolumeId() == "":
		return nil, invalid("volume_id", "must be given")
	case len(req.GetVolumeCapabilities()) == 0:
		return nil, invalid("volume_capabilities", "must be given")
	}
	if _, found := s.store.get().Volumes[req.GetVolumeId()]; !found {
		return nil, status.Errorf(codes.NotFound, "volume %s does not exist", req.GetVolumeId())
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext: req.GetVolumeContext(), VolumeCapabilities: req.GetVolumeCapabilities(), Parameters: req.GetParameters(),
	}}, nil
}
