package configmapstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/sheetanchor/sheetanchor/operations"
)

// Store is an [operations.Store] in the ConfigMaps of a namespace. It checks every condition. It is safe for concurrent
// use. The zero Store is not usable: [New] makes one.
type Store struct {
	maps      typedcorev1.ConfigMapInterface
	namespace string
	opts      Options
}

var _ operations.Remover = (*Store)(nil)

// New returns a store in the namespace. It asks the API server nothing. It returns every fault of its arguments, each
// naming what is wrong.
func New(client kubernetes.Interface, namespace string, opts Options) (*Store, error) {
	var faults []error
	if set, ok := client.(*kubernetes.Clientset); client == nil || ok && set == nil {
		faults = append(faults, errors.New("the client is nil"))
	}
	faults = append(faults, namespaceFault(namespace), opts.complete())
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("config map store: %w", err)
	}
	return &Store{maps: client.CoreV1().ConfigMaps(namespace), namespace: namespace, opts: opts}, nil
}

// Capabilities implements [operations.Store]: both.
func (s *Store) Capabilities() operations.Capabilities {
	return operations.Capabilities{ConditionalCreate: true, ConditionalReplace: true}
}

// Read implements [operations.Store] with one get.
func (s *Store) Read(ctx context.Context, name string) (data []byte, version string, err error) {
	if err := s.check(ctx, name); err != nil {
		return nil, "", fmt.Errorf("read %w", err)
	}
	data, v, err := s.get(ctx, name)
	if err != nil {
		return nil, "", fmt.Errorf("read %s: %w", name, s.named(name, err))
	}
	return data, v.String(), nil
}

// Write implements [operations.Store] with one create or patch, and, when somebody else has touched the ConfigMap, a get and
// another patch for each time.
func (s *Store) Write(ctx context.Context, name string, data []byte, old string) (version string, err error) {
	if err := s.check(ctx, name); err != nil {
		return "", fmt.Errorf("write %w", err)
	}
	key, stored, err := pack(data, s.opts.MaxBytes)
	if err == nil && old == "" {
		version, err = s.create(ctx, name, data, key, stored)
	} else if err == nil {
		version, err = s.replace(ctx, name, data, key, stored, old)
	}
	if err != nil {
		return "", fmt.Errorf("write %s: %w", name, s.named(name, err))
	}
	return version, nil
}

// check returns why a call cannot begin.
func (s *Store) check(ctx context.Context, name string) error {
	if s == nil || s.maps == nil {
		return fmt.Errorf("%s: the config map store was not made by New", name)
	}
	if err := operations.CheckName(name); err != nil {
		return fmt.Errorf("document: %w", err)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", name, context.Cause(ctx))
	}
	return nil
}

// named says in which ConfigMap the document is.
func (s *Store) named(name string, err error) error {
	return fmt.Errorf("config map %s/%s: %w", s.namespace, s.opts.configMap(name), err)
}

func (s *Store) get(ctx context.Context, name string) ([]byte, versions, error) {
	cm, err := s.maps.Get(ctx, s.opts.configMap(name), metav1.GetOptions{})
	if err != nil {
		if isAbsent(err, s.opts.configMap(name)) {
			return nil, versions{}, fmt.Errorf("%w: %w", operations.ErrNotFound, err)
		}
		return nil, versions{}, err
	}
	data, err := s.opts.unpack(name, cm)
	if err != nil {
		return nil, versions{}, err
	}
	return data, versionOf(cm, data), nil
}

func (s *Store) create(ctx context.Context, name string, data []byte, key string, stored []byte) (string, error) {
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: s.opts.configMap(name), Annotations: s.opts.annotations(name), Labels: s.opts.labels()},
		BinaryData: map[string][]byte{key: stored},
	}
	made, err := s.maps.Create(ctx, cm, metav1.CreateOptions{})
	if err != nil {
		return "", writeError(err, cm.Name)
	}
	return versionOf(made, data).String(), nil
}

// maxTouches is how often a ConfigMap may be touched by others during one write.
const maxTouches = 5

func (s *Store) replace(ctx context.Context, name string, data []byte, key string, stored []byte, old string) (version string, err error) {
	err = s.whileTouched(ctx, name, old, func(base versions) error {
		patched, err := s.patch(ctx, name, key, stored, base)
		if err == nil {
			version = versionOf(patched, data).String()
		}
		return err
	})
	return version, err
}

// Remove implements [operations.Remover] with one delete, conditional as a write is.
func (s *Store) Remove(ctx context.Context, name, old string) error {
	if err := s.check(ctx, name); err != nil {
		return fmt.Errorf("remove %w", err)
	}
	err := s.whileTouched(ctx, name, old, func(base versions) error {
		uid := types.UID(base.uid)
		err := s.maps.Delete(ctx, s.opts.configMap(name), metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &base.resource},
		})
		if isAbsent(err, s.opts.configMap(name)) {
			return absentError{err}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("remove %s: %w", name, s.named(name, err))
	}
	return nil
}

// absentError is the answer that there is nothing to remove.
type absentError struct{ error }

// Is reports whether target is [operations.ErrNotFound].
func (absentError) Is(target error) bool { return target == operations.ErrNotFound }

// whileTouched does a change of the document of the version old, again when somebody else has changed no more of its
// ConfigMap than the metadata.
func (s *Store) whileTouched(ctx context.Context, name, old string, change func(base versions) error) error {
	base, err := parseVersion(old)
	if err != nil {
		return fmt.Errorf("%w: %w", operations.ErrConflict, err)
	}
	for range maxTouches {
		if err = change(base); err == nil || errors.Is(err, operations.ErrNotFound) {
			return err
		}
		if err = writeError(err, s.opts.configMap(name)); !errors.Is(err, operations.ErrConflict) {
			return err
		}
		_, now, rerr := s.get(ctx, name)
		switch {
		case errors.Is(rerr, operations.ErrNotFound), errors.Is(rerr, operations.ErrMalformed):
			return err
		case rerr != nil:
			return errors.Join(err, rerr)
		case now.uid != base.uid || now.hash != base.hash:
			return err
		}
		base = now // only its metadata was changed
	}
	return err
}

// patch replaces the content of the ConfigMap if it has the version.
func (s *Store) patch(ctx context.Context, name, key string, stored []byte, base versions) (*corev1.ConfigMap, error) {
	content := map[string]any{rawKey: nil, zipKey: nil}
	content[key] = stored
	labels, annotations := s.opts.labels(), s.opts.annotations(name)
	patch, err := json.Marshal(map[string]any{
		"metadata":   map[string]any{"resourceVersion": base.resource, "labels": labels, "annotations": annotations},
		"binaryData": content,
	})
	if err != nil {
		return nil, err
	}
	return s.maps.Patch(ctx, s.opts.configMap(name), types.MergePatchType, patch, metav1.PatchOptions{})
}

// isAbsent reports whether the API server said that this ConfigMap does not exist; a proxy's 404 names none.
func isAbsent(err error, name string) bool {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	d := status.Status().Details
	return d != nil && d.Name == name && d.Kind == "configmaps"
}

// writeError gives a failed write its category. What a server says below 500 is that nothing was done; anything else, no
// answer too, leaves it open.
func writeError(err error, name string) error {
	status := apierrors.APIStatus(nil)
	isStatus := errors.As(err, &status)
	switch {
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err), isAbsent(err, name):
		return fmt.Errorf("%w: %w", operations.ErrConflict, err)
	case apierrors.IsRequestEntityTooLargeError(err):
		return fmt.Errorf("%w: %w", operations.ErrTooLarge, err)
	case isStatus && status.Status().Code < 500 && !apierrors.IsTimeout(err):
		return err
	}
	return fmt.Errorf("%w: %w", operations.ErrUnknownOutcome, err)
}

func (o *Options) labels() map[string]string {
	out := maps.Clone(o.Labels)
	if out == nil {
		out = map[string]string{}
	}
	out[o.Domain+"/store"] = o.Prefix
	return out
}
