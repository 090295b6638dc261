package reconciler_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What the tests of this package begin with: the operator's kind, a claim to back up, and storage that is slow.
var (
	kinds   = []backuptest.Resource{{Group: "example.dev", Version: "v1", Kind: "Backup", Namespaced: true, Status: true}}
	objects = append(
		backuptest.Objects(backuptest.SnapshotClass{Default: true}, backuptest.Claim{Namespace: "shop", Name: "data"}),
		backup("1", ""),
	)
	slow = backuptest.ControllerOptions{Scripts: map[string]backuptest.Script{"data": {CutAfter: time.Minute, ReadyAfter: 20 * time.Minute}}}
)

func backup(uid, phase string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.dev/v1", "kind": "Backup",
		"metadata": map[string]any{"namespace": "shop", "name": "nightly", "uid": uid},
		"spec":     map[string]any{"claim": "data"},
		"status":   map[string]any{"phase": phase},
	}}
}
