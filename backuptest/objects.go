package backuptest

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	snapscheme "github.com/kubernetes-csi/external-snapshotter/client/v6/clientset/versioned/scheme"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

// Add stores objects as they are, as if they had long been in the cluster: status, UID, owner references, finalizers and
// times are kept, a missing UID and creation time are made, the resourceVersion is new. Typed objects of client-go and of
// the snapshot client, unstructured ones and lists are taken. A missing namespace is made, an empty one means "default".
// Either all are stored or, with an error that names the object at fault, none: nil, an unknown kind, invalid metadata, what a
// builder cannot build, or an object that exists (apierrors.IsAlreadyExists).
func (c *Cluster) Add(objs ...runtime.Object) error {
	if err := c.add(false, objs); err != nil {
		return fmt.Errorf("add objects: %w", err)
	}
	return nil
}

func (c *Cluster) add(keep bool, objs []runtime.Object) error {
	if c.server == nil {
		return errNoCluster
	}
	var all []*unstructured.Unstructured
	for _, obj := range objs {
		list, err := toUnstructured(obj)
		if err != nil {
			return err
		}
		all = append(all, list...)
	}
	return c.server.Insert(keep, all...)
}

func toUnstructured(obj runtime.Object) ([]*unstructured.Unstructured, error) {
	if obj == nil {
		return nil, errors.New("an object is nil")
	}
	if v := reflect.ValueOf(obj); v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, fmt.Errorf("an object is nil: %T", obj)
	}
	if m, ok := obj.(*misbuilt); ok {
		return nil, m.err
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return []*unstructured.Unstructured{u}, nil
	}
	if meta.IsListType(obj) {
		items, err := meta.ExtractList(obj)
		if err != nil {
			return nil, err
		}
		var all []*unstructured.Unstructured
		for _, item := range items {
			list, err := toUnstructured(item)
			if err != nil {
				return nil, err
			}
			all = append(all, list...)
		}
		return all, nil
	}
	gvk := kindOf(obj)
	if gvk.Empty() {
		return nil, fmt.Errorf("%T: its kind is unknown; set apiVersion and kind", obj)
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("%T: %w", obj, err)
	}
	u := &unstructured.Unstructured{Object: object}
	u.SetGroupVersionKind(gvk)
	return []*unstructured.Unstructured{u}, nil
}

// kindOf is the kind an object says it is, or else the one its Go type has in the clients' schemes.
func kindOf(obj runtime.Object) schema.GroupVersionKind {
	if gvk := obj.GetObjectKind().GroupVersionKind(); !gvk.Empty() {
		return gvk
	}
	for _, known := range []*runtime.Scheme{scheme.Scheme, snapscheme.Scheme} {
		if kinds, _, err := known.ObjectKinds(obj); err == nil && len(kinds) > 0 {
			return kinds[0]
		}
	}
	return schema.GroupVersionKind{}
}

// Load stores the objects of a dump as kubectl writes it (get -o yaml or json): a List, or documents one after another,
// YAML or JSON. They are stored as [Cluster.Add] stores them, but an object that exists is left as it is, so loading twice
// changes nothing. CustomResourceDefinitions in the dump are served before the rest is looked at. Objects of kinds the cluster
// does not serve are skipped and returned, as "apiVersion Kind namespace/name". A broken dump, or a definition that
// no server would take, is an error, and nothing of it is stored.
func (c *Cluster) Load(r io.Reader) (skipped []string, err error) {
	if c.server == nil {
		return nil, errNoCluster
	}
	var found []*unstructured.Unstructured
	err = eachDocument(r, func(items []*unstructured.Unstructured) error {
		found = append(found, items...)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load dump: %w", err)
	}
	knows := c.server.Knows(found)
	var known []*unstructured.Unstructured
	for _, u := range found {
		if knows(u.GroupVersionKind()) {
			known = append(known, u)
			continue
		}
		skipped = append(skipped, describe(u))
	}
	if err := c.server.CheckDefinitions(known); err != nil {
		return nil, fmt.Errorf("load dump: %w", err)
	}
	if err := c.server.Insert(true, known...); err != nil {
		return nil, fmt.Errorf("load dump: %w", err)
	}
	return skipped, nil
}

// eachDocument calls see with the objects of each document of a YAML or JSON file. Its errors, and those of see, name the
// document, counted from 1.
func eachDocument(r io.Reader, see func(items []*unstructured.Unstructured) error) error {
	decoder := yaml.NewYAMLOrJSONDecoder(r, 4096)
	for n := 1; ; n++ {
		var document map[string]any
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return nil
		}
		var items []*unstructured.Unstructured
		if err == nil && len(document) > 0 {
			items, err = itemsOf(document)
		}
		if err == nil {
			err = see(items)
		}
		if err != nil {
			return fmt.Errorf("document %d: %w", n, err)
		}
	}
}

// itemsOf is the objects in a document: those of a list, or itself. The items of a typed list may leave out their kind.
func itemsOf(document map[string]any) ([]*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{Object: document}
	if u.GetKind() == "" || u.GetAPIVersion() == "" {
		return nil, errors.New("apiVersion or kind is missing")
	}
	raw, listed := document["items"]
	kind, named := strings.CutSuffix(u.GetKind(), "List")
	if !named || !listed {
		return []*unstructured.Unstructured{u}, nil
	}
	if raw == nil {
		return nil, nil
	}
	items, ok := raw.([]any)
	if !ok {
		return nil, fmt.Errorf("%s: items is not a list", u.GetKind())
	}
	objects := make([]*unstructured.Unstructured, 0, len(items))
	for i, item := range items {
		members, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s: items[%d] is not an object", u.GetKind(), i)
		}
		object := &unstructured.Unstructured{Object: members}
		if object.GetKind() == "" && kind != "" {
			object.SetKind(kind)
			object.SetAPIVersion(u.GetAPIVersion())
		}
		if object.GetKind() == "" || object.GetAPIVersion() == "" {
			return nil, fmt.Errorf("%s: items[%d]: apiVersion or kind is missing", u.GetKind(), i)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

func describe(u *unstructured.Unstructured) string {
	name := u.GetName()
	if namespace := u.GetNamespace(); namespace != "" {
		name = namespace + "/" + name
	}
	return fmt.Sprintf("%s %s %s", u.GetAPIVersion(), u.GetKind(), name)
}
