package finalize_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/finalize"
	"github.com/sheetanchor/sheetanchor/operations"
)

// A ready-made hook without what it works on is refused by New, which names the hook and the argument.
func TestNewRefusesNilArguments(t *testing.T) {
	t.Parallel()
	ops, doc, snaps := opsMap(t), &memory{}, newFakeSnapshots()
	tests := map[string]struct {
		hook finalize.Hook
		want []string
	}{
		"release":               {finalize.ReleaseSnapshots(nil, owner, nil, key), []string{`hook "release-snapshots": snaps is nil`, `hook "release-snapshots": ops is nil`}},
		"release, nil pointers": {finalize.ReleaseSnapshots((*csisnapshot.Snapshotter)(nil), owner, (*operations.Map)(nil), key), []string{"snaps is nil", "ops is nil"}},
		"thaw":                  {finalize.ThawPods(nil, owner), []string{`hook "thaw-pods": snaps is nil`}},
		"volume info":           {finalize.WriteVolumeInfo(nil, nil, key), []string{`hook "write-volumeinfo": doc is nil`, `hook "write-volumeinfo": ops is nil`}},
		"volume info, nil slot": {finalize.WriteVolumeInfo((*operations.Slot)(nil), ops, key), []string{"doc is nil"}},
		"results":               {finalize.WriteResults(nil, nil, key), []string{`hook "write-results": doc is nil`, `hook "write-results": ops is nil`}},
		"update items":          {finalize.UpdateItems(nil, key, nil, finalize.UpdateOptions{}), []string{`hook "update-items": update is nil`, `hook "update-items": ops is nil`}},
		"restore pvs":           {finalize.RestorePVs(nil, nil, finalize.RestorePVOptions{}), []string{`hook "restore-pvs": core is nil`}},
		"restore pvs, failed":   {finalize.RestorePVs((*kubernetes.Clientset)(nil), nil, finalize.RestorePVOptions{}), []string{"core is nil"}},
		"restore pvs, no map":   {finalize.RestorePVs(&kubernetes.Clientset{}, nil, finalize.RestorePVOptions{Operations: (*operations.Map)(nil), Key: key}), []string{"opts.Operations is nil"}},
		"validate volumes":      {finalize.ValidateVolumes(nil, nil), []string{`hook "validate-volumes": core is nil`}},
		"exec hooks":            {finalize.WaitExecHooks(nil, 0), []string{`hook "wait-exec-hooks": tracker is nil`}},
		"temporary": {finalize.RemoveTemporary(nil, finalize.Temporary{}), []string{
			"client is nil", "what.Label is empty", "what.Owner is empty", "what.Resources is empty", "what.Namespaces is empty",
		}},
		"temporary, failed": {finalize.RemoveTemporary((*dynamic.DynamicClient)(nil), finalize.Temporary{
			Label: "a", Owner: "b", Resources: []schema.GroupVersionResource{{Resource: "pods"}}, Namespaces: []string{""},
		}), []string{"client is nil"}},
		"refuse operations": {finalize.RefuseOperations(nil, key), []string{`hook "refuse-operations": ops is nil`}},
		"results, source":   {finalize.MergeResults(doc, []finalize.ResultSource{finalize.OperationResults(ops, key), nil}), []string{"sources[1] is nil"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, tc.hook, tc.want...)
		})
	}
	mustNew(t, []finalize.Hook{finalize.ReleaseSnapshots(snaps, owner, ops, key), finalize.WriteVolumeInfo(doc, ops, key), finalize.WriteResults(doc, ops, key)}, finalize.Options{})
	if _, err := finalize.New(nil, finalize.Options{Checkpoint: (*operations.Slot)(nil)}); !errors.Is(err, finalize.ErrInvalid) {
		t.Errorf("New() with a nil slot = %v, want ErrInvalid", err)
	}
}

// What is called without a Runner says what is nil.
func TestNilSources(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(context.Context) (finalize.Results, error){
		"ops": finalize.OperationResults(nil, key),
		"doc": finalize.SkippedVolumes(nil),
		"doc of AddResults": func(ctx context.Context) (finalize.Results, error) {
			return finalize.AddResults(ctx, nil, finalize.Results{})
		},
	} {
		if _, err := call(t.Context()); !errors.Is(err, finalize.ErrInvalid) || !strings.Contains(err.Error(), strings.Fields(name)[0]+" is nil") {
			t.Errorf("%s: %v, want it to name what is nil", name, err)
		}
	}
}
