package backuptest_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

// B2: wrong options are an error of Run that names every wrong field.
func TestWrongControllerOptions(t *testing.T) {
	t.Parallel()
	client, err := dynamic.NewForConfig(backuptest.New(t).Config())
	if err != nil {
		t.Fatal(err)
	}
	driver := backuptest.NewDriver(backuptest.DriverOptions{})
	cases := map[string]struct {
		reason string
		run    func(context.Context) error
		want   []string
	}{
		"controller": {
			reason: "each field is told, also those of scripts",
			run: backuptest.NewSnapshotController(client, driver, backuptest.ControllerOptions{
				Rate: math.NaN(), Workers: -1, CallTimeout: -1, RetryStart: -1, RetryMax: -1, Resync: -1,
				Scripts: map[string]backuptest.Script{
					"": {CutAfter: -time.Hour}, "a/b/c": {ReadyAfter: -1, LateFinalizer: -1, ErrorsOn: 9},
					"d": {
						Errors: []backuptest.DriverError{{Times: -1}}, DeleteErrors: []backuptest.DriverError{{}, {Times: -1}},
						Incidents: []backuptest.Incident{{}, {After: -1, Lasts: -1, Kind: 9}},
					},
				},
			}).Run,
			want: []string{
				"Rate", "Workers", "CallTimeout", "RetryStart", "RetryMax", "Resync", `Scripts[""]: the key`, "CutAfter: -1h", `Scripts["a/b/c"]: the key`,
				"ReadyAfter", "LateFinalizer", "ErrorsOn: 9", "Errors[0]: field Times", "DeleteErrors[1]", "Incidents[1]", "After", "Lasts", "Kind: 9",
			},
		},
		"provisioner": {
			reason: "the other loop has the same manners",
			run: backuptest.NewProvisioner(client, driver, backuptest.ProvisionerOptions{
				Latency: -1, RetryStart: -1, RetryMax: -1, Resync: -1,
			}).Run,
			want: []string{"Latency", "RetryStart", "RetryMax", "Resync"},
		},
		"driver": {
			reason: "a name that no class has is told by its place",
			run:    backuptest.NewSnapshotController(client, backuptest.NewDriver(backuptest.DriverOptions{Names: []string{"a", ""}}), backuptest.ControllerOptions{}).Run,
			want:   []string{"Names[1]"},
		},
		"zero driver": {
			reason: "a driver that NewDriver did not make can take no snapshot",
			run:    backuptest.NewProvisioner(client, &backuptest.Driver{}, backuptest.ProvisionerOptions{}).Run,
			want:   []string{"NewDriver"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := tc.run(t.Context())
			if err == nil {
				t.Fatalf("Run = nil, want an error: %s", tc.reason)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Run = %q, want it to tell of %q: %s", err, want, tc.reason)
				}
			}
		})
	}
}

// B2: the zero driver answers at once, and a wrong call is an InvalidArgument that takes no snapshot.
func TestDriverRefuses(t *testing.T) {
	t.Parallel()
	zero := &backuptest.Driver{}
	if zero.Load() == nil || zero.DeleteSnapshot(t.Context(), "h", backuptest.Script{}) == nil {
		t.Error("the zero driver has no error")
	}
	if _, err := zero.CreateSnapshot(t.Context(), createRequest("a", backuptest.Script{})); err == nil {
		t.Error("the zero driver takes a snapshot")
	}
	if _, found := zero.Snapshot("h"); found || len(zero.Snapshots()) != 0 || zero.Serves(backuptest.DefaultDriver) {
		t.Error("the zero driver holds or serves something")
	}
	driver := backuptest.NewDriver(backuptest.DriverOptions{})
	request := createRequest("a", backuptest.Script{CutAfter: -time.Hour})
	request.Size = -1
	_, err := driver.CreateSnapshot(t.Context(), request)
	if err == nil || !strings.Contains(err.Error(), "InvalidArgument") || !strings.Contains(err.Error(), "Size: -1") || !strings.Contains(err.Error(), "CutAfter") {
		t.Errorf("CreateSnapshot = %v, want InvalidArgument for Size and CutAfter", err)
	}
	if held := driver.Snapshots(); len(held) != 0 {
		t.Errorf("the storage holds %v, want nothing", held)
	}
}
