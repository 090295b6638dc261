package backuptest

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// DefaultDriver is the CSI driver that every builder and [NewDriver] use when none is named.
const DefaultDriver = "csi.example.dev"

// A Builder makes the API objects of one thing of a test, such as the claim and the volume of a [Claim].
type Builder interface {
	// Objects returns new objects at each call, so that a caller may change what it gets.
	Objects() []runtime.Object
}

// Objects returns the objects of all builders in order, as [Options] and [Cluster.Add] take them, which return an error for
// what a builder cannot build.
func Objects(builders ...Builder) []runtime.Object {
	var objects []runtime.Object
	for i, b := range builders {
		if b == nil {
			objects = append(objects, &misbuilt{err: fmt.Errorf("builder %d is nil", i+1)})
			continue
		}
		objects = append(objects, b.Objects()...)
	}
	return objects
}

// UIDOf returns the UID that a builder gives an object when none is set. It depends on kind, namespace and name only, so
// that two runs of a test, and two objects that refer to each other, agree on it.
func UIDOf(kind, namespace, name string) types.UID {
	sum := sha256.Sum256([]byte(kind + "/" + namespace + "/" + name))
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]))
}

func orUID(uid types.UID, kind, namespace, name string) types.UID {
	if uid != "" {
		return uid
	}
	return UIDOf(kind, namespace, name)
}

func orString(s, otherwise string) string {
	if s != "" {
		return s
	}
	return otherwise
}

// dashed joins the parts that are not empty with a dash.
func dashed(parts ...string) string {
	var kept []string
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, "-")
}

// withDefaults returns set over defaults, or nil if both are empty.
func withDefaults(set, defaults map[string]string) map[string]string {
	if len(set)+len(defaults) == 0 {
		return nil
	}
	merged := maps.Clone(defaults)
	if merged == nil {
		merged = map[string]string{}
	}
	maps.Copy(merged, set)
	return merged
}
