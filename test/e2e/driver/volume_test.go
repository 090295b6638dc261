package driver_test

import (
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/test/e2e/driver"
	"google.golang.org/grpc/codes"
)

func TestIdentity(t *testing.T) {
	t.Parallel()
	f := start(t, optionsIn(t.TempDir()))
	info := must[*csi.GetPluginInfoResponse](t)(f.identity.GetPluginInfo(t.Context(), &csi.GetPluginInfoRequest{}))
	if info.GetName() != driverName || info.GetVendorVersion() == "" {
		t.Errorf("GetPluginInfo() = %v, want the name %s and a version", info, driverName)
	}
	must[*csi.ProbeResponse](t)(f.identity.Probe(t.Context(), &csi.ProbeRequest{}))
	plugin := must[*csi.GetPluginCapabilitiesResponse](t)(f.identity.GetPluginCapabilities(t.Context(), &csi.GetPluginCapabilitiesRequest{}))
	controller := must[*csi.ControllerGetCapabilitiesResponse](t)(f.ControllerGetCapabilities(t.Context(), &csi.ControllerGetCapabilitiesRequest{}))
	group := must[*csi.GroupControllerGetCapabilitiesResponse](t)(f.group.GroupControllerGetCapabilities(t.Context(), &csi.GroupControllerGetCapabilitiesRequest{}))
	var got []string
	for _, c := range plugin.GetCapabilities() {
		got = append(got, c.GetService().GetType().String())
	}
	for _, c := range controller.GetCapabilities() {
		got = append(got, c.GetRpc().GetType().String())
	}
	for _, c := range group.GetCapabilities() {
		got = append(got, c.GetRpc().GetType().String())
	}
	want := []string{
		"CONTROLLER_SERVICE", "GROUP_CONTROLLER_SERVICE",
		"CREATE_DELETE_VOLUME", "CREATE_DELETE_SNAPSHOT", "LIST_SNAPSHOTS",
		"CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("capabilities (-want +got):\n%s", diff)
	}
}

func TestVolumeSize(t *testing.T) {
	t.Parallel()
	f := start(t, optionsIn(t.TempDir()))
	cases := map[string]struct {
		reason string
		size   *csi.CapacityRange
		want   int64
	}{
		"exact":          {"what is required is given", &csi.CapacityRange{RequiredBytes: 12345}, 12345},
		"none":           {"a volume has some size", nil, 1 << 30},
		"only a limit":   {"the usual size is too much", &csi.CapacityRange{LimitBytes: 5 << 20}, 5 << 20},
		"a large limit":  {"the usual size will do", &csi.CapacityRange{LimitBytes: 5 << 40}, 1 << 30},
		"within a range": {"no more than required", &csi.CapacityRange{RequiredBytes: 7, LimitBytes: 9}, 7},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := volumeRequest("app/" + name)
			req.CapacityRange = tc.size
			resp := must[*csi.CreateVolumeResponse](t)(f.CreateVolume(t.Context(), req))
			if got := resp.GetVolume().GetCapacityBytes(); got != tc.want {
				t.Errorf("CreateVolume(%v) has %d bytes, want %d: %s", tc.size, got, tc.want, tc.reason)
			}
		})
	}
}

func TestVolumeLife(t *testing.T) {
	t.Parallel()
	clock := newFrozenClock()
	opts := optionsIn(t.TempDir())
	opts.Clock = clock.now
	f := start(t, opts)
	id := f.volume(t, "app/data")
	if again := f.volume(t, "app/data"); again != id {
		t.Errorf("a second CreateVolume made %s, want %s", again, id)
	}
	smaller := volumeRequest("app/data")
	smaller.CapacityRange = &csi.CapacityRange{RequiredBytes: 1 << 20}
	if got := must[*csi.CreateVolumeResponse](t)(f.CreateVolume(t.Context(), smaller)); got.GetVolume().GetVolumeId() != id {
		t.Errorf("CreateVolume(smaller) = %v, want the volume that has enough", got)
	}
	for name, size := range map[string]*csi.CapacityRange{"larger": {RequiredBytes: 3<<20 + 1}, "limited": {LimitBytes: 3<<20 - 1}} {
		req := volumeRequest("app/data")
		req.CapacityRange = size
		_, err := f.CreateVolume(t.Context(), req)
		wantStatus(t, "CreateVolume("+name+")", err, codes.AlreadyExists, "3145728 bytes")
	}
	must[*csi.ValidateVolumeCapabilitiesResponse](t)(f.ValidateVolumeCapabilities(t.Context(), &csi.ValidateVolumeCapabilitiesRequest{VolumeId: id, VolumeCapabilities: capability}))
	want := []driver.Volume{{ID: id, Name: "pvc of app/data", Claim: "app/data", Bytes: 3 << 20, Made: clock.now()}}
	if diff := cmp.Diff(want, must[[]driver.Volume](t)(f.Volumes(t.Context()))); diff != "" {
		t.Errorf("Volumes() (-want +got):\n%s", diff)
	}
	for range 2 {
		must[*csi.DeleteVolumeResponse](t)(f.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id}))
	}
	if got := must[[]driver.Volume](t)(f.Volumes(t.Context())); len(got) != 0 {
		t.Errorf("Volumes() after deletion = %v, want none", got)
	}
}

func TestRestore(t *testing.T) {
	t.Parallel()
	clock := &testClock{}
	opts := optionsIn(t.TempDir())
	opts.Clock = clock.now
	f := start(t, opts)
	f.script(t, "app/*", driver.Script{Script: backuptest.Script{ReadyAfter: time.Hour}})
	volume := f.volume(t, "app/data")
	taken := f.snapshot(t, "s", volume)
	restore := volumeRequest("app/restored")
	restore.VolumeContentSource = fromSnapshot(taken.GetSnapshotId())
	_, err := f.CreateVolume(t.Context(), restore)
	wantStatus(t, "CreateVolume from a snapshot that is not ready", err, codes.Unavailable, "not ready")
	clock.advance(time.Hour)

	small := volumeRequest("app/small")
	small.VolumeContentSource, small.CapacityRange = restore.GetVolumeContentSource(), &csi.CapacityRange{RequiredBytes: 1}
	_, err = f.CreateVolume(t.Context(), small)
	wantStatus(t, "CreateVolume smaller than the snapshot", err, codes.OutOfRange, "3145728 bytes")

	restore.CapacityRange = nil
	got := must[*csi.CreateVolumeResponse](t)(f.CreateVolume(t.Context(), restore)).GetVolume()
	if got.GetCapacityBytes() != taken.GetSizeBytes() || got.GetContentSource().GetSnapshot().GetSnapshotId() != taken.GetSnapshotId() {
		t.Errorf("CreateVolume from a snapshot = %v, want its %d bytes and its handle as source", got, taken.GetSizeBytes())
	}
	restore.VolumeContentSource = nil
	_, err = f.CreateVolume(t.Context(), restore)
	wantStatus(t, "CreateVolume of the same name without source", err, codes.AlreadyExists, "another source")
}
