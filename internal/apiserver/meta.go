package apiserver

import (
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// initialise gives a new object what the server owns and it has not: UID, creation time, generation. Its metadata must be
// valid, else the error is Invalid and names the field.
func (r *Resource) initialise(u *unstructured.Unstructured) error {
	if u.GetUID() == "" {
		u.SetUID(uuid.NewUUID())
	}
	if created := u.GetCreationTimestamp(); created.IsZero() {
		u.SetCreationTimestamp(now())
	}
	if r.generation && u.GetGeneration() == 0 {
		u.SetGeneration(1)
	}
	return r.invalid(u, append(validation.ValidateObjectMetaAccessor(u, r.Namespaced, r.validName, field.NewPath("metadata")), r.judge(u)...))
}

func now() metav1.Time { return metav1.Time{Time: time.Now().UTC().Truncate(time.Second)} }

func (r *Resource) validName(name string, prefix bool) []string {
	switch {
	case r.rbac:
		return path.ValidatePathSegmentName(name, prefix)
	case r.label:
		return validation.NameIsDNSLabel(name, prefix)
	default:
		return validation.NameIsDNSSubdomain(name, prefix)
	}
}

// invalid makes faults one 422 answer; none is nil.
func (r *Resource) invalid(u *unstructured.Unstructured, faults field.ErrorList) error {
	if len(faults) == 0 {
		return nil
	}
	name := u.GetName()
	if name == "" {
		name = u.GetGenerateName()
	}
	return apierrors.NewInvalid(r.groupKind(), name, faults)
}

// judge compares u with the schema of a custom kind.
func (r *Resource) judge(u *unstructured.Unstructured) field.ErrorList {
	if s := r.schemas[u.GroupVersionKind().Version]; s != nil {
		return s.Judge(u.Object)
	}
	return nil
}

// succeed checks u as the next state of old and gives it what no client may change. Its resourceVersion is old's
// afterwards.
func (r *Resource) succeed(old *object, u *unstructured.Unstructured) error {
	if u.GetUID() == "" {
		u.SetUID(old.tree().GetUID())
	}
	if u.GetNamespace() == "" {
		u.SetNamespace(old.tree().GetNamespace())
	}
	if u.GetName() == "" {
		u.SetName(old.tree().GetName())
	}
	u.SetResourceVersion(old.tree().GetResourceVersion())
	u.SetCreationTimestamp(old.tree().GetCreationTimestamp())
	u.SetDeletionTimestamp(old.tree().GetDeletionTimestamp())
	u.SetDeletionGracePeriodSeconds(old.tree().GetDeletionGracePeriodSeconds())
	u.SetGeneration(old.tree().GetGeneration())
	at := field.NewPath("metadata")
	faults := validation.ValidateObjectMetaAccessor(u, r.Namespaced, r.validName, at)
	faults = append(faults, validation.ValidateObjectMetaAccessorUpdate(u, old.tree(), at)...)
	if err := r.invalid(u, append(faults, r.judge(u)...)); err != nil {
		return err
	}
	if r.generation && !apiequality.Semantic.DeepEqual(r.desired(old.tree()), r.desired(u)) {
		u.SetGeneration(old.tree().GetGeneration() + 1)
	}
	return nil
}

// desired is the part of an object that its generation counts.
func (r *Resource) desired(u *unstructured.Unstructured) map[string]any {
	part := make(map[string]any, len(u.Object))
	for key, value := range u.Object {
		if key == "metadata" || key == "status" && r.Status {
			continue
		}
		part[key] = value
	}
	return part
}

// carry copies the member key from one object to another, or removes it there.
func carry(from, to *unstructured.Unstructured, key string) {
	if value, ok := from.Object[key]; ok {
		to.Object[key] = value
	} else {
		delete(to.Object, key)
	}
}
