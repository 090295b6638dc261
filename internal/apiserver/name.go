package apiserver

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// NameIn returns the metadata.name of the object in a request's body, JSON or Kubernetes protobuf, or "" if it cannot be
// read or has none.
func NameIn(body []byte) string {
	var object metav1.PartialObjectMetadata
	if json.Unmarshal(body, &object) == nil {
		return object.Name
	}
	decoded, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return ""
	}
	accessor, err := meta.Accessor(decoded)
	if err != nil {
		return ""
	}
	return accessor.GetName()
}
