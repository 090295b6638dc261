package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
)

// patcher makes a new object of an old one, which it may change.
type patcher func(object map[string]any) (map[string]any, error)

func (s *Server) patch(ctx context.Context, c *call) (*http.Response, error) {
	apply, err := c.patcher()
	if err != nil {
		return nil, err
	}
	return s.change(ctx, c, func(old *object) (*unstructured.Unstructured, error) {
		object := old.tree().DeepCopy().Object
		object["apiVersion"] = c.apiVersion()
		patched, err := apply(object)
		if err != nil {
			return nil, err
		}
		u, strict, err := c.res.accept(patched, c.info.Version)
		if err != nil {
			return nil, unfitPatch(err)
		}
		return u, c.strictly(strict, unfitPatch)
	})
}

// unfitPatch is the error for a patch whose result is no object of the resource.
func unfitPatch(err error) error {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		err = errors.New(status.ErrStatus.Message)
	}
	return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{field.Invalid(field.NewPath("patch"), "", err.Error())})
}

func (c *call) patcher() (patcher, error) {
	switch types.PatchType(c.media) {
	case types.MergePatchType:
		var patch map[string]any
		if err := utiljson.Unmarshal(c.body, &patch); err != nil || patch == nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("the merge patch is not a JSON object: %v", err))
		}
		return func(object map[string]any) (map[string]any, error) {
			mergePatch(object, patch)
			return object, nil
		}, nil
	case types.JSONPatchType:
		patch, err := parseJSONPatch(c.body)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return patch.apply, nil
	case types.StrategicMergePatchType:
		return c.strategic()
	default:
		return nil, c.unknownPatch()
	}
}

// strategic is for built-in kinds, whose Go types say how lists merge.
func (c *call) strategic() (patcher, error) {
	if !c.res.builtin || !scheme.Scheme.Recognizes(c.res.storage()) {
		return nil, c.unknownPatch()
	}
	typed, err := scheme.Scheme.New(c.res.storage())
	if err != nil {
		return nil, err
	}
	var patch map[string]any
	if err := utiljson.Unmarshal(c.body, &patch); err != nil || patch == nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the strategic merge patch is not a JSON object: %v", err))
	}
	return func(object map[string]any) (map[string]any, error) {
		patched, err := strategicpatch.StrategicMergeMapPatch(object, runtime.DeepCopyJSON(patch), typed)
		if err != nil {
			return nil, apierrors.NewBadRequest("the strategic merge patch cannot be applied: " + err.Error())
		}
		return patched, nil
	}, nil
}

func (c *call) unknownPatch() error {
	accepted := "application/json-patch+json, application/merge-patch+json"
	if c.res.builtin {
		accepted += ", application/strategic-merge-patch+json"
	}
	return unsupported("the body of the request was in an unknown format - accepted media types include: " + accepted)
}

// mergePatch applies an RFC 7386 merge patch to object in place. It never shares patch's values.
func mergePatch(object, patch map[string]any) {
	for key, change := range patch {
		switch change := change.(type) {
		case nil:
			delete(object, key)
		case map[string]any:
			member, ok := object[key].(map[string]any)
			if !ok {
				member = map[string]any{}
				object[key] = member
			}
			mergePatch(member, change)
		default:
			object[key] = runtime.DeepCopyJSONValue(change)
		}
	}
}
