package csisnapshot_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// What a call is refused for names the snapshot it was about, and blames nothing else.
func TestRefusedCallsNameTheSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := backuptest.New(t, backuptest.Options{Objects: backuptest.Objects(
			backuptest.Claim{Namespace: "shop", Name: "data"},
			backuptest.Snapshot{Namespace: "shop", Name: "ready", Claim: "data"},
			backuptest.Snapshot{Namespace: "shop", Name: "created", Claim: "data", State: backuptest.SnapshotCreated},
		)})
		snapshots, err := csisnapshot.New(kubernetes.NewForConfigOrDie(cluster.Config()),
			csisnapshot.NewDynamic(dynamic.NewForConfigOrDie(cluster.Config())), csisnapshot.Options{})
		if err != nil {
			t.Fatal(err)
		}
		clone := func(name, to string) error {
			_, err := snapshots.Clone(t.Context(), exampleOwner, csisnapshot.Ref{Namespace: "shop", Name: name}, to)
			return err
		}
		_, foreign := snapshots.Release(t.Context(), exampleOwner, csisnapshot.Ref{Namespace: "shop", Name: "ready"})
		for name, tc := range map[string]struct {
			err, is error
			names   string
			not     string
		}{
			"clone of nothing":      {err: clone("gone", "dev"), is: csisnapshot.ErrNotFound, names: "clone snapshot shop/gone"},
			"clone of an uncut one": {err: clone("created", "dev"), is: csisnapshot.ErrNotCut, names: "clone snapshot shop/created"},
			"clone to nowhere":      {err: clone("ready", ""), names: `clone snapshot shop/ready: static content: namespace ""`},
			"release of another's":  {err: foreign, is: csisnapshot.ErrForeign, names: "remove snapshot shop/ready", not: "finalizers"},
		} {
			if tc.err == nil || tc.is != nil && !errors.Is(tc.err, tc.is) || !strings.Contains(tc.err.Error(), tc.names) {
				t.Errorf("%s: %v, want %v and %q", name, tc.err, tc.is, tc.names)
			}
			if tc.not != "" && tc.err != nil && strings.Contains(tc.err.Error(), tc.not) {
				t.Errorf("%s: %v, which speaks of %s", name, tc.err, tc.not)
			}
		}
	})
}
