package configmapstore_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/operations/configmapstore"
)

// A program without a bucket keeps its records in ConfigMaps.
func ExampleNew() {
	cluster, err := backuptest.Start(backuptest.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	if err := cluster.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "operator"}}); err != nil {
		fmt.Println(err)
		return
	}
	client := kubernetes.NewForConfigOrDie(cluster.Config())

	store, err := configmapstore.New(client, "operator", configmapstore.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := operations.NewMap(store, operations.BackupForm, operations.MapOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	key := operations.Key{Namespace: "operator", Name: "nightly", UID: "3c1f"}
	rec, err := m.Update(ctx, key, func(l *operations.List) error {
		return l.Add(operations.Operation{ID: "snapshot-1", Action: "csi", Status: operations.Status{Phase: operations.PhaseCompleted}})
	})
	fmt.Println(rec.Summary().Completed, "of", rec.Summary().Total, err)
	// Output: 1 of 1 <nil>
}
