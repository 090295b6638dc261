package volumekube_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/volumeinfo"
	"github.com/sheetanchor/sheetanchor/volumeinfo/volumekube"
)

func collect(ctx context.Context, tb testing.TB, config *rest.Config, opts volumekube.Options) (volumekube.Result, error) {
	tb.Helper()
	config.QPS = -1
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		tb.Fatal(err)
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		tb.Fatal(err)
	}
	return volumekube.Collect(ctx, core, csisnapshot.NewDynamic(dyn), opts)
}

// backedUp is a claim of namespace app with its volume and a ready snapshot of the owner.
func backedUp(name string, owner types.UID) []runtime.Object {
	c := backuptest.Claim{Namespace: "app", Name: name, VolumeLabels: map[string]string{"team": "shop"}}
	s := backuptest.Snapshot{Namespace: "app", Name: "snap-" + name, Claim: name}
	vs := s.VS()
	ref := csisnapshot.ClaimRef{Namespace: "app", Name: name, UID: backuptest.UIDOf("PersistentVolumeClaim", "app", name)}
	of := csisnapshot.Owner{UID: owner, Name: "nightly"}
	vs.SetLabels(csisnapshot.Names{}.Labels(of, ref))
	vs.SetAnnotations(csisnapshot.Names{}.Annotations(of, ref))
	return []runtime.Object{c.PVC(), c.PV(), vs, s.VSC()}
}

func owned(n int) (objects []runtime.Object) {
	for i := range n {
		objects = append(objects, backedUp(fmt.Sprintf("c%03d", i), "owner")...)
	}
	return append(objects, backedUp("other", "another")...)
}

// V3: one paged list for each kind, contents by name, and nothing else. V1, vol-9: records are of the owner's snapshots
// alone. vol-14: handle, readiness and version are those of one look at the content.
func TestCollect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster := backuptest.New(t, backuptest.Options{Objects: owned(25)})
		got, err := collect(t.Context(), t, cluster.Config(), volumekube.Options{Owner: "owner", PageSize: 10, Namespaces: []string{"app", "app"}})
		if err != nil || len(got.Warnings) > 0 {
			t.Fatalf("Collect() = %v, warnings %q", err, got.Warnings)
		}
		want := map[string]int{"list persistentvolumeclaims": 3, "list persistentvolumes": 3, "list volumesnapshots": 3, "get volumesnapshotcontents": 25}
		if diff := cmp.Diff(want, cluster.Requests()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		records, gaps := volumeinfo.Build(got.Inputs)
		if len(records) != 26 {
			t.Fatalf("%d records, want 26", len(records))
		}
		for _, r := range records {
			info := r.CSISnapshotInfo
			if r.PVCName == "other" {
				if r.Result != volumeinfo.Failed {
					t.Errorf("the snapshot of another owner makes %+v", r)
				}
				continue
			}
			if r.Result != volumeinfo.Succeeded || r.PVInfo == nil || r.PVInfo.ReclaimPolicy != "Delete" || r.PVInfo.Labels["team"] != "shop" || info == nil {
				t.Fatalf("record = %+v", r)
			}
			if info.ContentVersion == "" || info.SnapshotHandle == "" || info.ReadyToUse == nil || !*info.ReadyToUse {
				t.Errorf("snapshot of the record = %+v, want handle, readiness and version of the content", info)
			}
		}
		if len(gaps) != 1 || gaps[0].Reason != volumeinfo.NoSnapshot {
			t.Errorf("gaps = %v, want the claim without a snapshot of the owner", gaps)
		}
	})
}

// vol-12: without the snapshot API there are no snapshots and one warning.
func TestNoSnapshotAPI(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := backuptest.Claim{Namespace: "app", Name: "data"}
		cluster := backuptest.New(t, backuptest.Options{NoSnapshotCRDs: true, Objects: backuptest.Objects(c)})
		got, err := collect(t.Context(), t, cluster.Config(), volumekube.Options{Namespaces: []string{"app", "other"}})
		if err != nil || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "not installed") {
			t.Fatalf("Collect() = %v, warnings %q, want one", err, got.Warnings)
		}
		if len(got.Inputs.Claims) != 1 || len(got.Inputs.PVs) != 1 || len(got.Inputs.Snapshots)+len(got.Inputs.Contents) != 0 {
			t.Errorf("inputs = %+v, want the claim, its volume and no snapshots", got.Inputs)
		}
	})
}

// A list that expires is begun again; a content that is gone is a gap; every other fault names what was asked for.
func TestCollectFaults(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fault backuptest.Fault
		err   string
		gaps  int
	}{
		"expired":      {backuptest.Fault{Verb: "list", Resource: "persistentvolumeclaims", Code: http.StatusGone, Reason: "Expired", Nth: 2}, "", 0},
		"always":       {backuptest.Fault{Verb: "list", Resource: "persistentvolumeclaims", Code: http.StatusGone, Reason: "Expired"}, `list claims in namespace ""`, 0},
		"volumes":      {backuptest.Fault{Resource: "persistentvolumes", Code: http.StatusForbidden}, "list persistent volumes", 0},
		"snapshots":    {backuptest.Fault{Resource: "volumesnapshots", Code: http.StatusForbidden}, "list snapshots", 0},
		"contents":     {backuptest.Fault{Resource: "volumesnapshotcontents", Code: http.StatusForbidden}, "get content", 0},
		"content gone": {backuptest.Fault{Resource: "volumesnapshotcontents", Code: http.StatusNotFound, Times: 1}, "", 2},
		"hangs":        {backuptest.Fault{Action: backuptest.FaultHang}, "context deadline exceeded", 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cluster := backuptest.New(t, backuptest.Options{Objects: owned(5)[:20]})
				cluster.Fault(tc.fault)
				start := time.Now()
				got, err := collect(t.Context(), t, cluster.Config(), volumekube.Options{PageSize: 2})
				if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("Collect() = %v, want %q", err, tc.err)
				}
				if took := time.Since(start); took > 10*time.Minute {
					t.Errorf("it took %v", took)
				}
				if err != nil {
					return
				}
				records, gaps := volumeinfo.Build(got.Inputs)
				if len(records) != 5 || len(gaps) != tc.gaps {
					t.Errorf("%d records, gaps %v, want 5 and %d", len(records), gaps, tc.gaps)
				}
			})
		})
	}
	cluster := backuptest.New(t)
	dyn, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	snaps := csisnapshot.NewDynamic(dyn)
	for name, call := range map[string]func() (volumekube.Result, error){
		"no clients": func() (volumekube.Result, error) {
			return volumekube.Collect(t.Context(), nil, nil, volumekube.Options{})
		},
		"core of a failed constructor": func() (volumekube.Result, error) {
			return volumekube.Collect(t.Context(), (*kubernetes.Clientset)(nil), snaps, volumekube.Options{})
		},
		"snaps of a failed constructor": func() (volumekube.Result, error) {
			return volumekube.Collect(t.Context(), &kubernetes.Clientset{}, csisnapshot.NewDynamic((*dynamic.DynamicClient)(nil)), volumekube.Options{})
		},
	} {
		if _, err := call(); !errors.Is(err, volumekube.ErrInvalid) {
			t.Errorf("%s: Collect() = %v, want ErrInvalid", name, err)
		}
	}
	if _, err := collect(t.Context(), t, cluster.Config(), volumekube.Options{Names: csisnapshot.Names{Domain: "Bad Domain"}}); !errors.Is(err, volumekube.ErrInvalid) {
		t.Errorf("Collect() with a bad domain = %v", err)
	}
}
