package driver_test

import (
	"context"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
)

func TestWrongInput(t *testing.T) {
	t.Parallel()
	f := start(t, optionsIn(t.TempDir()))
	volume := f.volume(t, "app/data")
	member := must[*csi.CreateVolumeGroupSnapshotResponse](t)(f.group.CreateVolumeGroupSnapshot(t.Context(),
		&csi.CreateVolumeGroupSnapshotRequest{Name: "group", SourceVolumeIds: []string{volume}})).GetGroupSnapshot()

	type call = func(context.Context) error
	createVolume := func(change func(*csi.CreateVolumeRequest)) call {
		return func(ctx context.Context) error {
			req := volumeRequest("app/other")
			change(req)
			_, err := f.CreateVolume(ctx, req)
			return err
		}
	}
	cases := map[string]struct {
		reason string
		call   call
		code   codes.Code
		text   string
	}{
		"volume without name":          {"the name is what makes it idempotent", createVolume(func(r *csi.CreateVolumeRequest) { r.Name = "" }), codes.InvalidArgument, "name:"},
		"volume without capabilities":  {"the specification requires them", createVolume(func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities = nil }), codes.InvalidArgument, "volume_capabilities:"},
		"volume with negative size":    {"no volume has it", createVolume(func(r *csi.CreateVolumeRequest) { r.CapacityRange.RequiredBytes = -1 }), codes.InvalidArgument, "capacity_range.required_bytes:"},
		"volume with negative limit":   {"no volume has it", createVolume(func(r *csi.CreateVolumeRequest) { r.CapacityRange.LimitBytes = -1 }), codes.InvalidArgument, "capacity_range.limit_bytes:"},
		"volume with limit below size": {"no volume fits", createVolume(func(r *csi.CreateVolumeRequest) { r.CapacityRange.LimitBytes = 1 }), codes.InvalidArgument, "capacity_range.limit_bytes:"},
		"volume cloned from a volume": {"cloning is no capability", createVolume(func(r *csi.CreateVolumeRequest) {
			r.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: volume}}}
		}), codes.InvalidArgument, "volume_content_source:"},
		"volume from an unnamed snapshot": {"nothing is there to look for", createVolume(func(r *csi.CreateVolumeRequest) {
			r.VolumeContentSource = fromSnapshot("")
		}), codes.InvalidArgument, "volume_content_source.snapshot.snapshot_id:"},
		"volume from a missing snapshot": {"there is nothing to restore", createVolume(func(r *csi.CreateVolumeRequest) {
			r.VolumeContentSource = fromSnapshot("snap-none")
		}), codes.NotFound, "snap-none"},
		"delete volume without handle": {"the handle says which", func(ctx context.Context) error {
			_, err := f.DeleteVolume(ctx, &csi.DeleteVolumeRequest{})
			return err
		}, codes.InvalidArgument, "volume_id:"},
		"validate without handle": {"the handle says which", func(ctx context.Context) error {
			_, err := f.ValidateVolumeCapabilities(ctx, &csi.ValidateVolumeCapabilitiesRequest{VolumeCapabilities: capability})
			return err
		}, codes.InvalidArgument, "volume_id:"},
		"validate without capabilities": {"nothing is there to validate", func(ctx context.Context) error {
			_, err := f.ValidateVolumeCapabilities(ctx, &csi.ValidateVolumeCapabilitiesRequest{VolumeId: volume})
			return err
		}, codes.InvalidArgument, "volume_capabilities:"},
		"validate a missing volume": {"it has no capabilities", func(ctx context.Context) error {
			_, err := f.ValidateVolumeCapabilities(ctx, &csi.ValidateVolumeCapabilitiesRequest{VolumeId: "vol-none", VolumeCapabilities: capability})
			return err
		}, codes.NotFound, "vol-none"},
		"snapshot without name": {"the name is what makes it idempotent", func(ctx context.Context) error {
			_, err := f.CreateSnapshot(ctx, snapshotRequest("", volume))
			return err
		}, codes.InvalidArgument, "name:"},
		"snapshot without source": {"the source says of what", func(ctx context.Context) error {
			_, err := f.CreateSnapshot(ctx, snapshotRequest("s", ""))
			return err
		}, codes.InvalidArgument, "source_volume_id:"},
		"snapshot of a missing volume": {"there is nothing to cut", func(ctx context.Context) error {
			_, err := f.CreateSnapshot(ctx, snapshotRequest("s", "vol-none"))
			return err
		}, codes.NotFound, "vol-none"},
		"delete snapshot without handle": {"the handle says which", func(ctx context.Context) error {
			_, err := f.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{})
			return err
		}, codes.InvalidArgument, "snapshot_id:"},
		"delete one of a group": {"a group is deleted as a whole", func(ctx context.Context) error {
			_, err := f.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: member.GetSnapshots()[0].GetSnapshotId()})
			return err
		}, codes.InvalidArgument, "snapshot_id:"},
		"list a negative page": {"no page has it", func(ctx context.Context) error {
			_, err := f.ListSnapshots(ctx, &csi.ListSnapshotsRequest{MaxEntries: -1})
			return err
		}, codes.InvalidArgument, "max_entries:"},
		"list from a wrong token": {"the specification wants Aborted, so that the caller begins again", func(ctx context.Context) error {
			_, err := f.ListSnapshots(ctx, &csi.ListSnapshotsRequest{StartingToken: "!"})
			return err
		}, codes.Aborted, "starting_token:"},
		"group without name": {"the name is what makes it idempotent", func(ctx context.Context) error {
			_, err := f.group.CreateVolumeGroupSnapshot(ctx, &csi.CreateVolumeGroupSnapshotRequest{SourceVolumeIds: []string{volume}})
			return err
		}, codes.InvalidArgument, "name:"},
		"group without sources": {"a group has members", func(ctx context.Context) error {
			_, err := f.group.CreateVolumeGroupSnapshot(ctx, &csi.CreateVolumeGroupSnapshotRequest{Name: "g"})
			return err
		}, codes.InvalidArgument, "source_volume_ids:"},
		"group with a volume twice": {"its snapshots would have one name", func(ctx context.Context) error {
			_, err := f.group.CreateVolumeGroupSnapshot(ctx, &csi.CreateVolumeGroupSnapshotRequest{Name: "g", SourceVolumeIds: []string{volume, volume}})
			return err
		}, codes.InvalidArgument, "source_volume_ids:"},
		"group of a missing volume": {"there is nothing to cut", func(ctx context.Context) error {
			_, err := f.group.CreateVolumeGroupSnapshot(ctx, &csi.CreateVolumeGroupSnapshotRequest{Name: "g", SourceVolumeIds: []string{volume, "vol-none"}})
			return err
		}, codes.NotFound, "vol-none"},
		"get group without handle": {"the handle says which", func(ctx context.Context) error {
			_, err := f.group.GetVolumeGroupSnapshot(ctx, &csi.GetVolumeGroupSnapshotRequest{})
			return err
		}, codes.InvalidArgument, "group_snapshot_id:"},
		"get a missing group": {"there is nothing to tell", func(ctx context.Context) error {
			_, err := f.group.GetVolumeGroupSnapshot(ctx, &csi.GetVolumeGroupSnapshotRequest{GroupSnapshotId: "group-none"})
			return err
		}, codes.NotFound, "group-none"},
		"get group with other snapshots": {"the caller means another group", func(ctx context.Context) error {
			_, err := f.group.GetVolumeGroupSnapshot(ctx, &csi.GetVolumeGroupSnapshotRequest{GroupSnapshotId: member.GetGroupSnapshotId(), SnapshotIds: []string{"snap-none"}})
			return err
		}, codes.InvalidArgument, "snapshot_ids:"},
		"delete group without handle": {"the handle says which", func(ctx context.Context) error {
			_, err := f.group.DeleteVolumeGroupSnapshot(ctx, &csi.DeleteVolumeGroupSnapshotRequest{})
			return err
		}, codes.InvalidArgument, "group_snapshot_id:"},
		"delete group with other snapshots": {"the caller means another group", func(ctx context.Context) error {
			_, err := f.group.DeleteVolumeGroupSnapshot(ctx, &csi.DeleteVolumeGroupSnapshotRequest{GroupSnapshotId: member.GetGroupSnapshotId(), SnapshotIds: []string{"snap-none"}})
			return err
		}, codes.InvalidArgument, "snapshot_ids:"},
		"expand a volume": {"it is no capability", func(ctx context.Context) error {
			_, err := f.ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{VolumeId: volume})
			return err
		}, codes.Unimplemented, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := tc.call(t.Context()); err == nil {
				t.Fatalf("the call succeeded, want %v: %s", tc.code, tc.reason)
			} else {
				wantStatus(t, tc.reason, err, tc.code, tc.text)
			}
		})
	}
}

func fromSnapshot(id string) *csi.VolumeContentSource {
	return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: id}}}
}
