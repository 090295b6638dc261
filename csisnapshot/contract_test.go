package csisnapshot_test

import (
	"encoding/json"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

var updateContract = flag.Bool("update-contract", false, "write testdata/contract-v1.json")

func TestContract(t *testing.T) {
	t.Parallel()
	// X8 all-11: what outlives a process is as the first release wrote it: names, labels, annotations, static pairs and operation
	// IDs. A change here needs a new version beside the old one, which must still be found. The intents have files of their own.
	owner := csisnapshot.Owner{UID: "0c2e9e0a-5b2f-4d55-a1c8-7a2f8f1b7c11", Namespace: "backups", Name: "nightly"}
	long := csisnapshot.Owner{UID: "this-is-no-uid-of-kubernetes-but-a-text-of-more-than-sixty-three-characters", Name: "n"}
	claim := csisnapshot.ClaimRef{Namespace: "app", Name: "data", UID: "6c4ad1f4-52b0-4cf4-b4c1-44a1c8a0d8de"}
	record := csisnapshot.VolumeRecord{
		Driver: "csi.example.dev", Handle: "snap-1", Class: "fast", GroupHandle: "group-1", Claim: claim, SourceVolumeMode: new(corev1.PersistentVolumeBlock),
		Annotations: map[string]string{"snapshot.storage.kubernetes.io/deletion-secret-name": "s"},
	}
	contract := map[string]any{"version": 1}
	for name, names := range map[string]csisnapshot.Names{"default": {}, "own": {Prefix: "acme", Domain: "backup.acme.dev"}} {
		pair, err := names.Static(owner, "copy", record)
		if err != nil {
			t.Fatal(err)
		}
		contract[name] = map[string]any{
			"snapshot": names.NewSnapshot(owner, claim, "fast"), "longOwner": names.NewSnapshot(long, claim, ""),
			"static": pair, "selector": names.OwnerSelector(long.UID), "classKey": names.ClassKey(),
		}
	}
	ref := csisnapshot.Ref{Namespace: "app", Name: "s"}
	contract["operations"] = []string{
		csisnapshot.ActionName, csisnapshot.OperationID(ref, time.Time{}),
		csisnapshot.OperationID(ref, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
	}
	contract["content"] = csisnapshot.ContentName("uid-1")
	got, err := json.MarshalIndent(contract, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	const file = "testdata/contract-v1.json"
	if *updateContract {
		if err := os.WriteFile(file, append(got, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
		t.Errorf("the contract has changed (-v1 +now):\n%s", diff)
	}
}
