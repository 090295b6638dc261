package driver

import (
	"context"
	"encoding/base64"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ListSnapshots implements [csi.ControllerServer]. Pages are in the order of names and a token stands for the last name
// of a page, so that snapshots made or deleted meanwhile neither repeat nor hide another one.
func (s *service) ListSnapshots(_ context.Context, req *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	if req.GetMaxEntries() < 0 {
		return nil, invalid("max_entries", "is negative")
	}
	after, err := base64.RawURLEncoding.DecodeString(req.GetStartingToken())
	if err != nil {
		return nil, status.Error(codes.Aborted, "starting_token: is not a token of this driver")
	}
	st := s.store.get()
	resp, last := &csi.ListSnapshotsResponse{}, ""
	for _, p := range s.storage.Snapshots() {
		switch {
		case p.Name <= string(after),
			req.GetSnapshotId() != "" && p.Handle != req.GetSnapshotId(),
			req.GetSourceVolumeId() != "" && p.VolumeHandle != req.GetSourceVolumeId():
			continue
		}
		if most := int(req.GetMaxEntries()); most > 0 && len(resp.Entries) == most {
			resp.NextToken = base64.RawURLEncoding.EncodeToString([]byte(last))
			break
		}
		resp.Entries = append(resp.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: s.snapshot(st, p)})
		last = p.Name
	}
	return resp, nil
}
