package stack

import (
	"bytes"
	"context"
	_ "embed" // manifests
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

//go:embed manifests/audit-policy.yaml
var auditPolicyYAML []byte

//go:embed manifests/rbac.yaml
var rbacYAML []byte

//go:embed manifests/objects.yaml
var objectsYAML []byte

//go:embed manifests/trial.yaml
var trialYAML []byte

// The API server answers what it cannot serve yet by an error; it is asked again for some time.
const (
	installPoll    = 100 * time.Millisecond
	installTimeout = time.Minute
)

// installer creates objects as admin.
type installer struct{ client dynamic.Interface }

func (s *Stack) installer() (installer, error) {
	client, err := dynamic.NewForConfig(s.Config(Admin))
	return installer{client: client}, err
}

// roles creates what the components need to start: the CRDs, established, and their roles.
func (in installer) roles(ctx context.Context, crds string) error {
	names, err := filepath.Glob(filepath.Join(crds, "*.yaml"))
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fmt.Errorf("no CRDs in %s", crds)
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, name := range names {
		group.Go(func() error {
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			return in.all(ctx, data, in.established)
		})
	}
	group.Go(func() error { return in.all(ctx, rbacYAML, in.create) })
	return group.Wait()
}

// objects creates the node and the classes, and tries whether objects of the snapshot API can be created.
func (in installer) objects(ctx context.Context, kubeletPort int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return in.node(ctx, kubeletPort) })
	group.Go(func() error { return in.all(ctx, objectsYAML, in.create) })
	group.Go(func() error { return in.all(ctx, trialYAML, in.try) })
	return group.Wait()
}

// all calls do for each document, at once.
func (in installer) all(ctx context.Context, manifest []byte, do func(context.Context, *unstructured.Unstructured) error) error {
	objects, err := decode(manifest)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, o := range objects {
		group.Go(func() error {
			if err := do(ctx, o); err != nil {
				return fmt.Errorf("install %s %s: %w", o.GetKind(), o.GetName(), err)
			}
			return nil
		})
	}
	return group.Wait()
}

func decode(manifest []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), len(manifest))
	for {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}

func (in installer) resource(o *unstructured.Unstructured) dynamic.ResourceInterface {
	plural, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
	if o.GetNamespace() != "" {
		return in.client.Resource(plural).Namespace(o.GetNamespace())
	}
	return in.client.Resource(plural)
}

// create creates an object. One that is there already is from an attempt whose answer got lost.
func (in installer) create(ctx context.Context, o *unstructured.Unstructured) error {
	return in.insist(ctx, func(ctx context.Context) error {
		_, err := in.resource(o).Create(ctx, o, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

// try creates an object as a dry run.
func (in installer) try(ctx context.Context, o *unstructured.Unstructured) error {
	return in.insist(ctx, func(ctx context.Context) error {
		_, err := in.resource(o).Create(ctx, o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
}

// established creates a CRD and waits until it is served.
func (in installer) established(ctx context.Context, crd *unstructured.Unstructured) error {
	if err := in.create(ctx, crd); err != nil {
		return err
	}
	return in.insist(ctx, func(ctx context.Context) error {
		now, err := in.resource(crd).Get(ctx, crd.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		conditions, _, err := unstructured.NestedSlice(now.Object, "status", "conditions")
		if err != nil {
			return err
		}
		isEstablished := func(c any) bool {
			condition, ok := c.(map[string]any)
			return ok && condition["type"] == "Established" && condition["status"] == "True"
		}
		if !slices.ContainsFunc(conditions, isEstablished) {
			return fmt.Errorf("not established: %v", conditions)
		}
		return nil
	})
}

// node creates the node of the stub kubelet.
func (in installer) node(ctx context.Context, port int) error {
	node := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Node",
		"metadata": map[string]any{"name": NodeName, "labels": map[string]any{"kubernetes.io/hostname": NodeName}},
	}}
	if err := in.create(ctx, node); err != nil {
		return err
	}
	return in.insist(ctx, func(ctx context.Context) error {
		now, err := in.resource(node).Get(ctx, NodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		now.Object["status"] = map[string]any{
			"addresses":       []any{map[string]any{"type": "InternalIP", "address": "127.0.0.1"}},
			"daemonEndpoints": map[string]any{"kubeletEndpoint": map[string]any{"Port": int64(port)}},
			"conditions":      []any{map[string]any{"type": "Ready", "status": "True", "reason": "Stub"}},
			"capacity":        map[string]any{"pods": "1000"},
			"allocatable":     map[string]any{"pods": "1000"},
		}
		_, err = in.resource(node).UpdateStatus(ctx, now, metav1.UpdateOptions{})
		return err
	})
}

// insist calls op until it succeeds: whatever the API server says, it may only be too early for it.
func (in installer) insist(ctx context.Context, op func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, installPoll, installTimeout, true, func(ctx context.Context) (bool, error) {
		last = op(ctx)
		if apierrors.IsInvalid(last) {
			return false, last
		}
		return last == nil, nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}
