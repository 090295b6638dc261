package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

const mediaProtobuf = "application/vnd.kubernetes.protobuf"

// decode reads an object of the call's resource out of its body, in its storage version.
func (c *call) decode() (*unstructured.Unstructured, error) {
	var raw map[string]any
	switch c.media {
	case "", "application/json":
		if err := utiljson.Unmarshal(c.body, &raw); err != nil {
			return nil, apierrors.NewBadRequest("the object provided is not JSON: " + err.Error())
		}
	case "application/yaml":
		body, err := yaml.ToJSON(c.body)
		if err == nil {
			err = utiljson.Unmarshal(body, &raw)
		}
		if err != nil {
			return nil, apierrors.NewBadRequest("the object provided is not YAML: " + err.Error())
		}
	case mediaProtobuf:
		typed, gvk, err := scheme.Codecs.UniversalDeserializer().Decode(c.body, nil, nil)
		if err == nil {
			raw, err = runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
		}
		if err != nil {
			return nil, apierrors.NewBadRequest("the object provided cannot be decoded: " + err.Error())
		}
		raw["apiVersion"], raw["kind"] = gvk.GroupVersion().String(), gvk.Kind
	default:
		return nil, unsupported("the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, " + mediaProtobuf)
	}
	if raw == nil {
		return nil, apierrors.NewBadRequest("the object provided is empty")
	}
	return c.res.accept(raw, c.info.Version, c.strict())
}

func unsupported(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType, Message: message,
	}}
}

// accept makes raw, which is the caller's to give away, an object of the resource in its storage version: kind and
// version must fit if they are there, built-in kinds must fit their Go type, and unknown fields are dropped, or refused
// when strict. Custom kinds keep what they have beside metadata.
func (r *Resource) accept(raw map[string]any, version string, strict bool) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{Object: raw}
	want := r.groupKind().WithVersion(version)
	if got := u.GroupVersionKind(); got.Kind == "" || got.Version == "" {
		u.SetGroupVersionKind(want)
	} else if got != want {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s in version %q", got.Kind, got.GroupVersion(), want.Kind, want.GroupVersion()))
	}
	u.SetGroupVersionKind(r.storage())
	var err error
	if r.builtin && scheme.Scheme.Recognizes(r.storage()) {
		u.Object, err = throughType(u.Object, r.storage(), strict)
	} else {
		err = untyped(u.Object, strict)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", want.Kind, want.GroupVersion(), want.Kind, err))
	}
	return u, nil
}

// throughType decodes raw into the Go type of a built-in kind and back.
func throughType(raw map[string]any, gvk schema.GroupVersionKind, strict bool) (map[string]any, error) {
	body, err := json.Marshal(raw)
	if err != nil {
		return nil, err
	}
	decoder := jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, jsonserializer.SerializerOptions{Strict: strict})
	typed, _, err := decoder.Decode(body, &gvk, nil)
	if err != nil {
		return nil, err
	}
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, err
	}
	out["apiVersion"], out["kind"] = gvk.GroupVersion().String(), gvk.Kind
	dropNulls(out)
	return out, nil
}

// untyped checks and normalises the metadata of a kind that has no Go type here, and drops a null beside it.
func untyped(raw map[string]any, strict bool) error {
	var meta metav1.ObjectMeta
	if value, ok := raw["metadata"]; ok {
		body, err := json.Marshal(value)
		if err != nil {
			return err
		}
		decoder := json.NewDecoder(bytes.NewReader(body))
		if strict {
			decoder.DisallowUnknownFields()
		}
		if err := decoder.Decode(&meta); err != nil {
			return fmt.Errorf("metadata: %w", err)
		}
	}
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&meta)
	if err != nil {
		return err
	}
	dropNulls(out)
	raw["metadata"] = out
	for key, value := range raw {
		if value == nil {
			delete(raw, key)
		}
	}
	return nil
}

// dropNulls removes null members of objects, at any depth.
func dropNulls(value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, member := range value {
			if member == nil {
				delete(value, key)
				continue
			}
			dropNulls(member)
		}
	case []any:
		for _, item := range value {
			dropNulls(item)
		}
	}
}
