package apiserver

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// object is a stored object. It is immutable, and so is everything it points to.
type object struct {
	key string // namespace/name, or /name for cluster-wide kinds
	rv  uint64
	u   *unstructured.Unstructured
	raw []byte // u as JSON
}

func keyOf(namespace, name string) string { return namespace + "/" + name }

// newObject makes u, which must not be changed any more, an object with resourceVersion rv.
func newObject(u *unstructured.Unstructured, rv uint64) (*object, error) {
	u.SetResourceVersion(formatVersion(rv))
	raw, err := json.Marshal(u.Object)
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", u.GetKind(), keyOf(u.GetNamespace(), u.GetName()), err)
	}
	return &object{key: keyOf(u.GetNamespace(), u.GetName()), rv: rv, u: u, raw: raw}, nil
}

// in returns the object's JSON in a version of its group.
func (o *object) in(apiVersion string) ([]byte, error) {
	if o.u.GetAPIVersion() == apiVersion {
		return o.raw, nil
	}
	other := make(map[string]any, len(o.u.Object))
	maps.Copy(other, o.u.Object)
	other["apiVersion"] = apiVersion
	raw, err := json.Marshal(other)
	if err != nil {
		return nil, fmt.Errorf("encode %s as %s: %w", o.key, apiVersion, err)
	}
	return raw, nil
}

func formatVersion(rv uint64) string { return strconv.FormatUint(rv, 10) }
