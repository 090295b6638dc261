package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// claim makes a claim and waits until it is bound and left alone.
func claim(name string) Step {
	return steps(claimOf(name, ""), bound(name))
}

// waitingClaim makes a claim that is bound only once bind is called.
func waitingClaim(name string) Step { return claimOf(name, "waits") }

func claimOf(name, class string) Step {
	return func(ctx context.Context, r *run) error {
		return r.create(ctx, claims, r.newClaim(name, class))
	}
}

func (r *run) newClaim(name, class string) *unstructured.Unstructured {
	o := object("v1", "PersistentVolumeClaim", r.namespace, name)
	storage := r.StorageClass
	if class != "" {
		storage = r.namespace + "-" + class
	}
	o.Object["spec"] = map[string]any{
		"accessModes": []any{"ReadWriteOnce"}, "storageClassName": storage, "volumeMode": "Filesystem",
		"resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}},
	}
	return o
}

// restore makes a claim from a snapshot.
func restore(name, snapshot, class string) Step {
	return func(ctx context.Context, r *run) error {
		o := r.newClaim(name, class)
		source := map[string]any{"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": snapshot}
		if err := unstructured.SetNestedMap(o.Object, source, "spec", "dataSource"); err != nil {
			return err
		}
		return r.create(ctx, claims, o)
	}
}

// bind lets a waiting claim have its volume, as the scheduler does.
func bind(name string) Step {
	return func(ctx context.Context, r *run) error {
		change := fmt.Sprintf(`{"metadata":{"annotations":{"volume.kubernetes.io/selected-node":%q}}}`, r.Node)
		return r.patch(ctx, claims, r.namespace, name, change)
	}
}

func bound(name string) Step {
	return func(ctx context.Context, r *run) error {
		if err := r.await(ctx, "claim "+name, "bound", func(o *unstructured.Unstructured) bool {
			return o != nil && text(o, "status", "phase") == "Bound"
		}); err != nil {
			return err
		}
		return r.quiet(ctx)
	}
}

// foreignClaim makes a claim that is bound to a volume of another driver.
func foreignClaim(name string) Step {
	return func(ctx context.Context, r *run) error {
		pv := object("v1", "PersistentVolume", "", r.namespace+"-"+name)
		pv.Object["spec"] = map[string]any{
			"accessModes": []any{"ReadWriteOnce"}, "capacity": map[string]any{"storage": "1Gi"}, "volumeMode": "Filesystem",
			"persistentVolumeReclaimPolicy": "Retain",
			"csi":                           map[string]any{"driver": otherDriver, "volumeHandle": "foreign-" + r.namespace},
			"claimRef":                      map[string]any{"namespace": r.namespace, "name": name},
		}
		if err := r.create(ctx, volumes, pv); err != nil {
			return err
		}
		o := r.newClaim(name, "")
		spec, _ := o.Object["spec"].(map[string]any)
		spec["storageClassName"], spec["volumeName"] = "", pv.GetName()
		if err := r.create(ctx, claims, o); err != nil {
			return err
		}
		return bound(name)(ctx, r)
	}
}

// snapshot makes a VolumeSnapshot; class "" names none.
func snapshot(name, claim, class string) Step {
	return func(ctx context.Context, r *run) error {
		o := object("snapshot.storage.k8s.io/v1", "VolumeSnapshot", r.namespace, name)
		spec := map[string]any{"source": map[string]any{"persistentVolumeClaimName": claim}}
		if class != "" {
			spec["volumeSnapshotClassName"] = r.namespace + "-" + class
		}
		o.Object["spec"] = spec
		return r.create(ctx, snapshots, o)
	}
}

// ready waits until a snapshot is ready and has all its finalizers.
func ready(name string) Step {
	return func(ctx context.Context, r *run) error {
		return r.await(ctx, "snapshot "+name, "ready", func(o *unstructured.Unstructured) bool {
			content, _ := r.record.get("content of " + name)
			// The two watches do not keep step: the content seen may be one from before it was cut.
			return o != nil && isTrue(o, "status", "readyToUse") && content != nil && text(content, "status", "snapshotHandle") != "" &&
				hasPrefixed(content.GetFinalizers(), "volumesnapshotcontent-bound") &&
				(text(content, "spec", "deletionPolicy") != "Delete" || hasPrefixed(o.GetFinalizers(), "volumesnapshot-bound")) &&
				content.GetAnnotations()[prefix+"volumesnapshot-being-created"] == ""
		})
	}
}

// until waits for a word in what the outcome would say of an object's aspect.
func until(key, aspectName, word string) Step {
	return func(ctx context.Context, r *run) error {
		i := slices.IndexFunc(aspects, func(a aspect) bool { return a.name == aspectName })
		return r.await(ctx, key, aspectName+" "+word, func(o *unstructured.Unstructured) bool {
			return o != nil && strings.Contains(aspects[i].of(o), word)
		})
	}
}

func gone(key string) Step {
	return func(ctx context.Context, r *run) error {
		return r.await(ctx, key, "gone", func(o *unstructured.Unstructured) bool { return o == nil })
	}
}

func pause(d time.Duration) Step {
	return func(ctx context.Context, _ *run) error { return sleep(ctx, d) }
}

func deleteSnapshot(name string) Step {
	return func(ctx context.Context, r *run) error { return r.delete(ctx, snapshots, r.namespace, name) }
}

func deleteClaim(name string) Step {
	return func(ctx context.Context, r *run) error { return r.delete(ctx, claims, r.namespace, name) }
}

func deleteNamespace() Step {
	return func(ctx context.Context, r *run) error { return r.delete(ctx, namespaces, "", r.namespace) }
}

func deleteContent(of string) Step {
	return onContent(of, func(ctx context.Context, r *run, name string) error { return r.delete(ctx, contents, "", name) })
}

// touch sets a label of a snapshot's content, if that is there.
func touch(of string) Step {
	return onContent(of, func(ctx context.Context, r *run, name string) error {
		return r.patch(ctx, contents, "", name, `{"metadata":{"labels":{"touched":"yes"}}}`)
	})
}

// keepHandle remembers the handle of a snapshot's content for a content made by hand.
func keepHandle(of string) Step {
	return func(_ context.Context, r *run) error {
		o, _ := r.record.get("content of " + of)
		if o == nil {
			return fmt.Errorf("no content of %s", of)
		}
		if r.handle = text(o, "status", "snapshotHandle"); r.handle == "" {
			return fmt.Errorf("the content of %s has no handle", of)
		}
		r.names[r.handle] = "HANDLE"
		return nil
	}
}

// static makes a content by hand with the handle kept before, waits until the sidecar knows it, and makes the snapshot that asks for
// it.
func static(name, class string) Step {
	return steps(staticContent(name, class), until("content of "+name, "status", "readyToUse=true"), staticSnapshot(name, class))
}

func staticContent(name, class string) Step {
	return func(ctx context.Context, r *run) error {
		content := object("snapshot.storage.k8s.io/v1", "VolumeSnapshotContent", "", r.namespace+"-"+name)
		content.Object["spec"] = map[string]any{
			"deletionPolicy": "Delete", "driver": r.Driver, "source": map[string]any{"snapshotHandle": r.handle},
			"volumeSnapshotRef":       map[string]any{"namespace": r.namespace, "name": name},
			"volumeSnapshotClassName": r.namespace + "-" + class, "sourceVolumeMode": "Filesystem",
		}
		return r.create(ctx, contents, content)
	}
}

func staticSnapshot(name, class string) Step {
	return func(ctx context.Context, r *run) error {
		o := object("snapshot.storage.k8s.io/v1", "VolumeSnapshot", r.namespace, name)
		o.Object["spec"] = map[string]any{
			"source": map[string]any{"volumeSnapshotContentName": r.namespace + "-" + name}, "volumeSnapshotClassName": r.namespace + "-" + class,
		}
		return r.create(ctx, snapshots, o)
	}
}

func onContent(of string, do func(ctx context.Context, r *run, name string) error) Step {
	return func(ctx context.Context, r *run) error {
		if o, _ := r.record.get("content of " + of); o != nil {
			return do(ctx, r, o.GetName())
		}
		return nil
	}
}

func steps(all ...Step) Step {
	return func(ctx context.Context, r *run) error {
		for _, step := range all {
			if err := step(ctx, r); err != nil {
				return err
			}
		}
		return nil
	}
}

func isTrue(o *unstructured.Unstructured, fields ...string) bool {
	value, _, _ := unstructured.NestedBool(o.Object, fields...)
	return value
}

func hasPrefixed(finalizers []string, name string) bool {
	return slices.ContainsFunc(finalizers, func(f string) bool { return strings.HasPrefix(f, prefix+name) })
}
