package conformance

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

// otherDriver is a CSI driver that no world has.
const otherDriver = "nobody.conformance.sheetanchor.io"

// begin makes the namespace and the classes, and starts to record.
func (r *run) begin(ctx context.Context) error {
	namespace := object("v1", "Namespace", "", "")
	namespace.SetGenerateName("conf-" + r.scenario.Name + "-")
	made, err := r.Client.Resource(namespaces).Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create namespace: %w", err)
	}
	r.namespace = made.GetName()
	for name, fields := range map[string][2]string{
		"delete": {r.Driver, "Delete"}, "retain": {r.Driver, "Retain"}, "other": {otherDriver, "Delete"},
	} {
		r.classes[name] = r.namespace + "-" + name
		r.names[r.classes[name]] = "CLASS"
		class := object("snapshot.storage.k8s.io/v1", "VolumeSnapshotClass", "", r.classes[name])
		class.Object["driver"], class.Object["deletionPolicy"] = fields[0], fields[1]
		if err := r.create(ctx, classes, class); err != nil {
			return err
		}
	}
	if r.scenario.groups {
		class := object(groupClasses.GroupVersion().String(), "VolumeGroupSnapshotClass", "", r.namespace)
		class.Object["driver"], class.Object["deletionPolicy"] = r.Driver, "Delete"
		if err := r.create(ctx, groupClasses, class); err != nil {
			return err
		}
	}
	waits := object("storage.k8s.io/v1", "StorageClass", "", r.namespace+"-waits")
	waits.Object["provisioner"], waits.Object["volumeBindingMode"], waits.Object["reclaimPolicy"] = r.Driver, "WaitForFirstConsumer", "Delete"
	if err := r.create(ctx, storageClasses, waits); err != nil {
		return err
	}
	for claim, script := range r.scenario.Scripts {
		if err := r.SetScript(ctx, r.namespace+"/"+claim, script); err != nil {
			return fmt.Errorf("script of %s: %w", claim, err)
		}
	}
	follow := []schema.GroupVersionResource{snapshots, contents, claims}
	if r.scenario.groups {
		follow = append(follow, groups, groupContents)
	}
	r.record, err = startRecorder(ctx, r.Client, r.namespace, follow...)
	return err
}

// end takes away what is left, whatever holds it.
func (r *run) end(ctx context.Context) error {
	var errs []error
	for claim := range r.scenario.Scripts {
		errs = append(errs, r.SetScript(ctx, r.namespace+"/"+claim, backuptest.Script{}))
	}
	left := []schema.GroupVersionResource{snapshots, contents, claims}
	if r.scenario.groups {
		left = append([]schema.GroupVersionResource{groups, groupContents}, left...)
	}
	for _, resource := range left {
		list, err := r.Client.Resource(resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for i := range list.Items {
			if o := &list.Items[i]; o.GetNamespace() == r.namespace || text(o, "spec", "volumeSnapshotRef", "namespace") == r.namespace ||
				text(o, "spec", "volumeGroupSnapshotRef", "namespace") == r.namespace {
				errs = append(errs, r.remove(ctx, resource, o, resource != claims))
			}
		}
	}
	if r.scenario.groups {
		errs = append(errs, r.delete(ctx, groupClasses, "", r.namespace))
	}
	for _, name := range r.classes {
		errs = append(errs, r.delete(ctx, classes, "", name))
	}
	errs = append(errs, r.delete(ctx, storageClasses, "", r.namespace+"-waits"), r.delete(ctx, namespaces, "", r.namespace))
	return errors.Join(errs...)
}

func (r *run) remove(ctx context.Context, resource schema.GroupVersionResource, o *unstructured.Unstructured, force bool) error {
	if err := r.delete(ctx, resource, o.GetNamespace(), o.GetName()); err != nil || !force {
		return err
	}
	return r.patch(ctx, resource, o.GetNamespace(), o.GetName(), `{"metadata":{"finalizers":null}}`)
}

func (r *run) create(ctx context.Context, resource schema.GroupVersionResource, o *unstructured.Unstructured) error {
	if _, err := r.Client.Resource(resource).Namespace(o.GetNamespace()).Create(ctx, o, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}

func (r *run) delete(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) error {
	err := r.Client.Resource(resource).Namespace(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s %s: %w", resource.Resource, name, err)
	}
	return nil
}

// patch changes an object; one that is gone needs no change.
func (r *run) patch(ctx context.Context, resource schema.GroupVersionResource, namespace, name, change string) error {
	_, err := r.Client.Resource(resource).Namespace(namespace).Patch(ctx, name, types.MergePatchType, []byte(change), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("patch %s %s: %w", resource.Resource, name, err)
	}
	return nil
}

func object(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}
