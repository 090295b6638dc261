package apiserver

import (
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
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
	return r.invalid(u, validation.ValidateObjectMetaAccessor(u, r.Namespaced, r.validName, field.NewPath("metadata")))
}

func now() metav1.Time { return metav1.Time{Time: time.Now().UTC().Truncate(time.Second)} }

func (r *Resource) validName(name string, prefix bool) []string {
	if r.label {
		return validation.NameIsDNSLabel(name, prefix)
	}
	return validation.NameIsDNSSubdomain(name, prefix)
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

// succeed checks u as the next state of old and gives it what no client may change. Its resourceVersion is old's
// afterwards.
func (r *Resource) succeed(old *object, u *unstructured.Unstructured) error {
	if u.GetUID() == "" {
		u.SetUID(old.u.GetUID())
	}
	if u.GetNamespace() == "" {
		u.SetNamespace(old.u.GetNamespace())
	}
	if u.GetName() == "" {
		u.SetName(old.u.GetName())
	}
	u.SetResourceVersion(old.u.GetResourceVersion())
	u.SetCreationTimestamp(old.u.GetCreationTimestamp())
	u.SetDeletionTimestamp(old.u.GetDeletionTimestamp())
	u.SetDeletionGracePeriodSeconds(old.u.GetDeletionGracePeriodSeconds())
	u.SetGeneration(old.u.GetGeneration())
	path := field.NewPath("metadata")
	faults := validation.ValidateObjectMetaAccessor(u, r.Namespaced, r.validName, path)
	faults = append(faults, validation.ValidateObjectMetaAccessorUpdate(u, old.u, path)...)
	if err := r.invalid(u, faults); err != nil {
		return err
	}
	if r.generation && !apiequality.Semantic.DeepEqual(r.desired(old.u), r.desired(u)) {
		u.SetGeneration(old.u.GetGeneration() + 1)
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
