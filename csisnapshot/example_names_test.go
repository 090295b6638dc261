package csisnapshot_test

import (
	"context"
	"fmt"
	"time"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// Whose a snapshot is, found out by any program that knows the names: here one that lists the backups' snapshots.
func ExampleNames_OwnerSelector() {
	cluster, client, _, err := exampleSnapshots()
	if err != nil {
		panic(err)
	}
	defer cluster.Close()
	var names csisnapshot.Names
	page, err := client.Snapshots().List(context.Background(), "shop", csisnapshot.ListOptions{Selector: names.OwnerSelector(exampleOwner.UID)})
	if err != nil {
		panic(err)
	}
	for _, s := range page.Items {
		fmt.Println(s.Claim, names.OwnerOf(s.Meta) == exampleOwner.UID, names.Owns(exampleOwner.UID, s.Meta), names.Owns("another", s.Meta))
		fmt.Println(s.Name == names.Snapshot(exampleOwner.UID, names.ClaimUID(s.Meta)), names.OwnsName(exampleOwner.UID, s.Name))
	}
	// Output:
	// data-0 true true false
	// true true
	// data-1 true true false
	// true true
}

// What a snapshot of the library carries, for policies that admit or select it, and what chooses its class.
func ExampleNames_Labels() {
	names := csisnapshot.Names{Domain: "backup.example.dev"}
	owner := csisnapshot.Owner{UID: "7d0c3a51", Namespace: "backups", Name: "nightly"}
	claim := csisnapshot.ClaimRef{Namespace: "shop", Name: "data", UID: "51b7"}
	fmt.Println(names.Labels(owner, claim)[names.OwnerLabel()] == csisnapshot.LabelValue(string(owner.UID)))
	fmt.Println(names.Annotations(owner, claim))
	fmt.Println(names.ClassKey())
	fmt.Println(csisnapshot.ContentName("0a1b")) // the content that the controller makes for the snapshot of this UID
	// Output:
	// true
	// map[backup.example.dev/claim-name:data backup.example.dev/claim-uid:51b7 backup.example.dev/owner-name:backups/nightly backup.example.dev/owner-uid:7d0c3a51]
	// backup.example.dev/csi-volumesnapshot-class
	// snapcontent-0a1b
}

// The operation of a snapshot says which snapshot it is about.
func ExampleOperationID() {
	id := csisnapshot.OperationID(csisnapshot.Ref{Namespace: "shop", Name: "snap-1"}, time.Date(2026, 5, 2, 10, 0, 0, 0, time.UTC))
	fmt.Println(id)
	ref, err := csisnapshot.ParseOperationID(id)
	fmt.Println(ref.Name, err)
	// Output:
	// shop/snap-1/2026-05-02T10:00:00Z
	// snap-1 <nil>
}

// The record of a snapshot whose content is at hand: what a later restore needs, and nothing of the cluster.
func ExampleRecordOf() {
	cluster, client, refs, err := exampleSnapshots()
	if err != nil {
		panic(err)
	}
	defer cluster.Close()
	ctx := context.Background()
	for _, ref := range refs {
		snapshot, err := client.Snapshots().Get(ctx, ref.Namespace, ref.Name)
		if err != nil {
			panic(err)
		}
		if snapshot.Status == nil || snapshot.Status.BoundContent == nil {
			fmt.Println(snapshot.Claim, "is not cut")
			continue
		}
		content, err := client.Contents().Get(ctx, "", *snapshot.Status.BoundContent)
		if err != nil {
			panic(err)
		}
		record, err := csisnapshot.RecordOf(content)
		record.Claim = csisnapshot.ClaimRef{Namespace: snapshot.Namespace, Name: snapshot.Claim}
		fmt.Println(record.Claim.Name, record.Driver, record.Handle != "", err)
	}
	// Output:
	// data-0 csi.example.dev true <nil>
	// data-1 is not cut
}

// Why a snapshot does not get done, in a driver's own words: from what a program has read already.
func ExampleExplain() {
	text := "Failed to create snapshot: failed to take snapshot of the volume vol-1: " +
		"rpc error: code = ResourceExhausted desc = too many snapshots of this volume"
	ref := csisnapshot.Ref{Namespace: "shop", Name: "snap-1"}
	snapshot := csisnapshot.Snapshot{
		Meta: csisnapshot.Meta{Namespace: ref.Namespace, Name: ref.Name, UID: "uid-1"}, Claim: "data",
		Status: &csisnapshot.SnapshotStatus{Error: &csisnapshot.StatusError{Message: &text}},
	}
	state := csisnapshot.Judge(csisnapshot.NewState(csisnapshot.Target{Ref: ref}), csisnapshot.Look{Snapshot: &snapshot})
	why := csisnapshot.Explain(csisnapshot.Evidence{State: state, Snapshot: &snapshot})
	fmt.Println(why.Diagnosis, "of the", why.Source)
	fmt.Println(why.Cause)
	// Output:
	// Error of the snapshot
	// ResourceExhausted: too many snapshots of this volume
}
