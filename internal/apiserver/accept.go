package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/kubernetes/scheme"
)

// typed reports whether objects are read into a Go type, which drops what it does not have.
func (r *Resource) typed() bool { return r.builtin && scheme.Scheme.Recognizes(r.storage()) }

// read makes a body an object. strict are the unknown and duplicate fields, which it is without.
func (r *Resource) read(body []byte, version string, yaml bool) (raw map[string]any, strict []error, err error) {
	want := r.groupKind().WithVersion(version)
	decoder := jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, jsonserializer.SerializerOptions{Yaml: yaml, Strict: true})
	if !r.typed() {
		u := &unstructured.Unstructured{}
		_, _, err = decoder.Decode(body, &want, u)
		strict, err = apart(err)
		return u.Object, strict, err
	}
	typed, gvk, err := decoder.Decode(body, &want, nil)
	if strict, err = apart(err); err != nil {
		return nil, nil, err
	}
	raw, err = fromTyped(typed, *gvk)
	return raw, strict, err
}

// apart takes the faults that only a strict reader minds out of a decoder's error.
func apart(err error) ([]error, error) {
	if lenient, ok := runtime.AsStrictDecodingError(err); ok {
		return lenient.Errors(), nil
	}
	return nil, err
}

func fromTyped(typed runtime.Object, gvk schema.GroupVersionKind) (map[string]any, error) {
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, err
	}
	out["apiVersion"], out["kind"] = gvk.GroupVersion().String(), gvk.Kind
	dropNulls(out)
	return out, nil
}

// accept is read and finish for an object that is no body of a request. It gives raw away.
func (r *Resource) accept(raw map[string]any, version string) (u *unstructured.Unstructured, strict []error, err error) {
	if r.typed() {
		body, err := json.Marshal(raw)
		if err != nil {
			return nil, nil, err
		}
		if raw, strict, err = r.read(body, version, false); err != nil {
			return nil, nil, r.misfit(version, err)
		}
	}
	u, dropped, err := r.finish(raw, version)
	return u, append(strict, dropped...), err
}

// finish makes raw, which the caller gives away, an object of the resource in its storage version: kind and version must
// fit, metadata must be metadata. A custom kind with a schema loses what the schema does not have, which is told of, and gets
// its defaults; without one it keeps what it has.
func (r *Resource) finish(raw map[string]any, version string) (u *unstructured.Unstructured, dropped []error, err error) {
	if raw == nil {
		return nil, nil, apierrors.NewBadRequest("the object provided is empty")
	}
	u = &unstructured.Unstructured{Object: raw}
	want := r.groupKind().WithVersion(version)
	if got := u.GroupVersionKind(); got.Kind == "" || got.Version == "" {
		u.SetGroupVersionKind(want)
	} else if got != want {
		return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s in version %q", got.Kind, got.GroupVersion(), want.Kind, want.GroupVersion()))
	}
	u.SetGroupVersionKind(r.storage())
	if r.typed() {
		return u, nil, nil
	}
	if dropped, err = normaliseMetadata(u.Object); err != nil {
		return nil, nil, r.misfit(version, err)
	}
	if s := r.schemas[version]; s != nil {
		for _, path := range s.Prune(u.Object) {
			dropped = append(dropped, fmt.Errorf("unknown field %q", path))
		}
		s.Fill(u.Object)
	}
	return u, dropped, nil
}

// normaliseMetadata reads the metadata of a kind that has no Go type here, and drops a null beside it.
func normaliseMetadata(raw map[string]any) (unknown []error, err error) {
	if value, ok := raw["metadata"]; ok && value != nil {
		if _, isObject := value.(map[string]any); !isObject {
			return nil, errors.New("metadata: it is not an object")
		}
	}
	body, err := json.Marshal(map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": raw["metadata"]})
	if err != nil {
		return nil, err
	}
	var meta metav1.PartialObjectMetadata
	decoder := jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, jsonserializer.SerializerOptions{Strict: true})
	_, _, err = decoder.Decode(body, nil, &meta)
	if unknown, err = apart(err); err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&meta.ObjectMeta)
	if err != nil {
		return nil, err
	}
	dropNulls(out)
	raw["metadata"] = out
	for key, value := range raw {
		if value == nil {
			delete(raw, key)
		}
	}
	return unknown, nil
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
