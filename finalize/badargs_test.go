package finalize_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/finalize"
	"github.com/sheetanchor/sheetanchor/operations"
)

// An owner or key of nobody is refused when the runner is made, not after the retries of each call.
func TestNewRefusesNobody(t *testing.T) {
	t.Parallel()
	var nobody csisnapshot.Owner
	var none operations.Key
	ops, doc, snaps := opsMap(t), &memory{}, newFakeSnapshots()
	update := func(context.Context, operations.ResourceID, string) ([]operations.Operation, error) { return nil, nil }
	noUID := key
	noUID.UID = ""
	for name, tc := range map[string]struct {
		reason string
		hook   finalize.Hook
		want   []string
	}{
		"release":           {"owner and key", finalize.ReleaseSnapshots(snaps, nobody, ops, none), []string{"owner is invalid: ", "key is invalid: "}},
		"release, no UID":   {"the field is named", finalize.ReleaseSnapshots(snaps, owner, ops, noUID), []string{"key is invalid: key UID"}},
		"thaw":              {"owner", finalize.ThawPods(&thawer{}, nobody), []string{"owner is invalid: "}},
		"volume info":       {"key", finalize.WriteVolumeInfo(doc, ops, none), []string{"key is invalid: key name"}},
		"results":           {"key", finalize.WriteResults(doc, ops, none), []string{"key is invalid: key name"}},
		"update items":      {"key", finalize.UpdateItems(ops, none, update, finalize.UpdateOptions{}), []string{"key is invalid: key name"}},
		"restore pvs":       {"key of operations that are there", finalize.RestorePVs(&kubernetes.Clientset{}, nil, finalize.RestorePVOptions{Operations: ops}), []string{"opts.Key is invalid: key name"}},
		"refuse operations": {"key", finalize.RefuseOperations(ops, none), []string{"key is invalid: key name"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, tc.hook, tc.want...)
		})
	}
}

// F6, F7: a restored volume without a name is refused by its index, as the caller gave it, and field when the runner is made:
// a list of no namespace would be one of all.
func TestNewRefusesVolumesWithoutName(t *testing.T) {
	t.Parallel()
	core := &kubernetes.Clientset{}
	for name, tc := range map[string]struct {
		reason  string
		volumes []finalize.RestoredVolume
		want    []string
	}{
		"nothing":      {"the zero volume", []finalize.RestoredVolume{{}}, []string{"volumes[0].Namespace is empty", "volumes[0].Claim is empty"}},
		"no namespace": {"it sorts first and is named as given", []finalize.RestoredVolume{restored("a"), {Claim: "b"}}, []string{"volumes[1].Namespace is empty"}},
		"no claim":     {"the other field", []finalize.RestoredVolume{restored("a"), restored("b"), {Namespace: "app"}}, []string{"volumes[2].Claim is empty"}},
		"twice":        {"each is named", []finalize.RestoredVolume{{Claim: "a"}, {Claim: "a"}}, []string{"volumes[0].Namespace is empty", "volumes[1].Namespace is empty"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, finalize.RestorePVs(core, tc.volumes, finalize.RestorePVOptions{}), tc.want...)
			refused(t, finalize.ValidateVolumes(core, tc.volumes), tc.want...)
		})
	}
	volumes := []finalize.RestoredVolume{restored("a")}
	mustNew(t, []finalize.Hook{finalize.RestorePVs(core, volumes, finalize.RestorePVOptions{}), finalize.ValidateVolumes(core, volumes)}, finalize.Options{})
}

// A Runner that New did not make has nothing to step: it says so and never waits.
func TestZeroRunner(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]*finalize.Runner{"zero": {}, "nil": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				_, stepErr := r.Step(ctx)
				_, runErr := r.Run(ctx)
				for _, err := range []error{stepErr, runErr} {
					if !errors.Is(err, finalize.ErrInvalid) || !strings.Contains(err.Error(), "was not made by New") {
						t.Errorf("error %v, want that the runner was not made by New", err)
					}
				}
			})
		})
	}
}

// refused holds that New refuses a hook with a fault for each of want and no other.
func refused(t *testing.T, hook finalize.Hook, want ...string) {
	t.Helper()
	_, err := finalize.New([]finalize.Hook{hook}, finalize.Options{})
	if he, ok := errors.AsType[*finalize.HookError](err); !ok || he.Hook != hook.Name || !errors.Is(err, finalize.ErrInvalid) {
		t.Fatalf("New() = %v, want a HookError of %s", err, hook.Name)
	}
	lines := strings.Split(err.Error(), "\n")
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("New() = %v, want %q", err, w)
		}
	}
	if len(lines) != len(want) {
		t.Errorf("New() = %q, want %d faults", lines, len(want))
	}
}
