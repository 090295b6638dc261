package conformance

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// group makes a VolumeGroupSnapshot of claims.
func group(name string, members ...string) Step {
	return func(ctx context.Context, r *run) error {
		for _, member := range members {
			if err := r.patch(ctx, claims, r.namespace, member, fmt.Sprintf(`{"metadata":{"labels":{"group":%q}}}`, name)); err != nil {
				return err
			}
		}
		if err := r.quiet(ctx); err != nil { // the controller reads claims from its cache
			return err
		}
		o := object(groups.GroupVersion().String(), "VolumeGroupSnapshot", r.namespace, name)
		o.Object["spec"] = map[string]any{
			"volumeGroupSnapshotClassName": r.namespace,
			"source":                       map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"group": name}}},
		}
		return r.create(ctx, groups, o)
	}
}

func deleteGroup(name string) Step {
	return func(ctx context.Context, r *run) error { return r.delete(ctx, groups, r.namespace, name) }
}

// membersReady waits for that many ready members, whose names only the group's controller knows.
func membersReady(n int) Step {
	return membersAre(func(all []*unstructured.Unstructured) bool {
		ready := 0
		for _, o := range all {
			if o != nil && isTrue(o, "status", "readyToUse") {
				ready++
			}
		}
		return ready == 2*n // and their contents
	})
}

func membersGone() Step {
	return membersAre(func(all []*unstructured.Unstructured) bool {
		for _, o := range all {
			if o != nil {
				return false
			}
		}
		return true
	})
}

// membersAre waits for a state of all members' snapshots and contents.
func membersAre(holds func(all []*unstructured.Unstructured) bool) Step {
	return func(ctx context.Context, r *run) error {
		ctx, cancel := r.patient(ctx)
		defer cancel()
		err := r.record.wait(ctx, func() bool { return holds(r.record.members()) })
		if err != nil {
			return fmt.Errorf("wait for members: %w", err)
		}
		return nil
	}
}

// members are the last versions of all members' snapshots and contents, nil for each that is gone.
func (r *recorder) members() []*unstructured.Unstructured {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*unstructured.Unstructured
	for key, c := range r.columns {
		if strings.Contains(key, "snapshot-") {
			all = append(all, c.last())
		}
	}
	return all
}
