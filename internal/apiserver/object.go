package apiserver

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// object is a stored object. It is immutable, and so is everything it points to. Its JSON is kept always and its tree, which is
// several times as big, while it is the present state of an object that is read often.
type object struct {
	key     string // namespace/name, or /name for cluster-wide kinds
	version string // apiVersion
	rv      uint64
	raw     []byte
	kept    atomic.Pointer[unstructured.Unstructured] // raw as a tree, or nil
}

// tree returns the object as a tree, which may not be changed.
func (o *object) tree() *unstructured.Unstructured {
	if u := o.kept.Load(); u != nil {
		return u
	}
	u := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(o.raw, &u.Object); err != nil {
		return &unstructured.Unstructured{Object: map[string]any{}} // never: it was made of one
	}
	return u
}

// fade gives the tree up: it is made anew for who asks.
func (o *object) fade() { o.kept.Store(nil) }

// namespace and name are those of the object.
func (o *object) namespace() string { namespace, _, _ := strings.Cut(o.key, "/"); return namespace }
func (o *object) name() string      { _, name, _ := strings.Cut(o.key, "/"); return name }

func keyOf(namespace, name string) string { return namespace + "/" + name }

// newObject makes u, which must not be changed any more, an object with resourceVersion rv.
func newObject(u *unstructured.Unstructured, rv uint64) (*object, error) {
	u.SetResourceVersion(formatVersion(rv))
	raw, err := json.Marshal(u.Object)
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", u.GetKind(), keyOf(u.GetNamespace(), u.GetName()), err)
	}
	o := &object{key: keyOf(u.GetNamespace(), u.GetName()), version: u.GetAPIVersion(), rv: rv, raw: raw}
	o.kept.Store(u)
	return o, nil
}

// in returns the object's JSON in a version of its group.
func (o *object) in(apiVersion string) ([]byte, error) {
	if o.version == apiVersion {
		return o.raw, nil
	}
	u := o.tree()
	other := make(map[string]any, len(u.Object))
	maps.Copy(other, u.Object)
	other["apiVersion"] = apiVersion
	raw, err := json.Marshal(other)
	if err != nil {
		return nil, fmt.Errorf("encode %s as %s: %w", o.key, apiVersion, err)
	}
	return raw, nil
}

func formatVersion(rv uint64) string { return strconv.FormatUint(rv, 10) }
