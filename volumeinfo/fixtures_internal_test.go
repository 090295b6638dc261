package volumeinfo

import "fmt"

// manyInputs returns n volumes with everything known of each.
func manyInputs(n int) Inputs {
	var in Inputs
	for i := range n {
		claim, content := fmt.Sprintf("data-%05d", i), fmt.Sprintf("snapcontent-%05d", i)
		uid, snapshot := fmt.Sprintf("claim-uid-%05d", i), fmt.Sprintf("snapshot-uid-%05d", i)
		in.Claims = append(in.Claims, Claim{Namespace: "app", Name: claim, UID: uid, PV: "pv-" + claim})
		in.PVs = append(in.PVs, PV{Name: "pv-" + claim, ClaimNamespace: "app", ClaimName: claim, ClaimUID: uid, ReclaimPolicy: "Delete"})
		in.Snapshots = append(in.Snapshots, Snapshot{
			Namespace: "app", Name: "s-" + claim, UID: snapshot, Claim: &claim, ClaimUID: uid, Content: &content, ReadyToUse: new(true),
		})
		in.Contents = append(in.Contents, Content{Name: content, SnapshotUID: snapshot, Handle: new("handle-" + claim)})
		in.Operations = append(in.Operations, Operation{ID: "op-" + claim, Namespace: "app", Name: "s-" + claim, Result: Succeeded})
	}
	return in
}
