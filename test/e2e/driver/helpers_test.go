package driver_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/sheetanchor/sheetanchor/test/e2e/driver"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/wait"
)

const driverName = "csi.test.example"

func optionsIn(dir string) driver.Options {
	return driver.Options{
		Name: driverName, Endpoint: "unix://" + filepath.Join(dir, "csi"), Control: "unix://" + filepath.Join(dir, "ctl"),
		State: filepath.Join(dir, "state"),
	}
}

// testClock is the real clock and what the test adds to it.
type testClock struct{ ahead atomic.Int64 }

func (c *testClock) now() time.Time          { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *testClock) advance(d time.Duration) { c.ahead.Add(int64(d)) }

// frozenClock moves only when told.
type frozenClock struct{ at atomic.Pointer[time.Time] }

func newFrozenClock() *frozenClock {
	c := &frozenClock{}
	c.at.Store(new(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)))
	return c
}
func (c *frozenClock) now() time.Time          { return *c.at.Load() }
func (c *frozenClock) advance(d time.Duration) { c.at.Store(new(c.now().Add(d))) }

// fixture is a driver that runs, and who speaks to it.
type fixture struct {
	*driver.Client
	csi.ControllerClient
	identity csi.IdentityClient
	group    csi.GroupControllerClient
	conn     *grpc.ClientConn
	stop     func() // ends the driver and waits for it; may be called twice
}

// start runs a driver in this process until stop or the end of the test.
func start(t *testing.T, opts driver.Options) *fixture {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- driver.Run(ctx, opts) }()
	f := connect(t, opts)
	stopped := false
	f.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	}
	t.Cleanup(f.stop)
	f.await(t)
	return f
}

func connect(t *testing.T, opts driver.Options) *fixture {
	t.Helper()
	client, err := driver.NewClient(opts.Control)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(opts.Endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return &fixture{
		Client: client, conn: conn, ControllerClient: csi.NewControllerClient(conn), identity: csi.NewIdentityClient(conn),
		group: csi.NewGroupControllerClient(conn),
	}
}

// await waits until the driver answers.
func (f *fixture) await(t *testing.T) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		last = f.Ready(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatal(errors.Join(err, last))
	}
}

var capability = []*csi.VolumeCapability{{
	AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
}}

// volumeRequest is the request for the volume of a claim "NAMESPACE/CLAIM".
func volumeRequest(claim string) *csi.CreateVolumeRequest {
	namespace, name, _ := strings.Cut(claim, "/")
	return &csi.CreateVolumeRequest{
		Name: "pvc of " + claim, VolumeCapabilities: capability, CapacityRange: &csi.CapacityRange{RequiredBytes: 3 << 20},
		Parameters: map[string]string{"csi.storage.k8s.io/pvc/namespace": namespace, "csi.storage.k8s.io/pvc/name": name},
	}
}

// volume makes the volume of a claim and returns its handle.
func (f *fixture) volume(t *testing.T, claim string) string {
	t.Helper()
	resp, err := f.CreateVolume(t.Context(), volumeRequest(claim))
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetVolume().GetVolumeId()
}

func snapshotRequest(name, volume string) *csi.CreateSnapshotRequest {
	return &csi.CreateSnapshotRequest{Name: name, SourceVolumeId: volume, Parameters: map[string]string{
		"csi.storage.k8s.io/volumesnapshot/namespace": "app", "csi.storage.k8s.io/volumesnapshot/name": "vs-" + name,
		"csi.storage.k8s.io/volumesnapshotcontent/name": "snapcontent-" + name,
	}}
}

// snapshot takes a snapshot that must succeed.
func (f *fixture) snapshot(t *testing.T, name, volume string) *csi.Snapshot {
	t.Helper()
	resp, err := f.CreateSnapshot(t.Context(), snapshotRequest(name, volume))
	if err != nil {
		t.Fatalf("CreateSnapshot(%s) = %v", name, err)
	}
	return resp.GetSnapshot()
}

func (f *fixture) script(t *testing.T, pattern string, script driver.Script) {
	t.Helper()
	if err := f.SetScript(t.Context(), pattern, script); err != nil {
		t.Fatal(err)
	}
}

// wantStatus checks the code of an error and what its text contains.
func wantStatus(t *testing.T, what string, err error, code codes.Code, text string) {
	t.Helper()
	if status.Code(err) != code || !strings.Contains(status.Convert(err).Message(), text) {
		t.Errorf("%s = %v, want code %v with %q", what, err, code, text)
	}
}

// codeOf returns the code of an answer.
func codeOf(err error) codes.Code { return status.Code(err) }

// must returns the value of a call that must succeed.
func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}
