package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
)

// The server adds a random end of suffixLength to a generateName, which is cut to leave room for it, as the real one does.
const (
	suffixLength  = 5
	maxNamePrefix = 63 - suffixLength
)

func (s *Server) create(ctx context.Context, c *call) (*http.Response, error) {
	u, err := c.decode()
	if err != nil {
		return nil, err
	}
	if err := c.prepare(u); err != nil {
		return nil, err
	}
	o, err := s.insert(c, u)
	if err != nil {
		return nil, err
	}
	if err := s.persist(ctx); err != nil {
		return nil, err
	}
	return c.object(http.StatusCreated, o)
}

// prepare makes what a client sent the object that a create stores, but for its name.
func (c *call) prepare(u *unstructured.Unstructured) error {
	switch namespace := u.GetNamespace(); {
	case namespace == "":
		u.SetNamespace(c.info.Namespace)
	case !c.res.Namespaced:
	case namespace != c.info.Namespace:
		return apierrors.NewBadRequest(fmt.Sprintf("the namespace of the provided object does not match the namespace sent on the request: %q, %q", namespace, c.info.Namespace))
	}
	if u.GetResourceVersion() != "" {
		return apierrors.NewInternalError(fmt.Errorf("resourceVersion should not be set on objects to be created"))
	}
	for _, owned := range []string{"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink"} {
		unstructured.RemoveNestedField(u.Object, "metadata", owned)
	}
	if c.res.Status {
		delete(u.Object, "status")
	}
	if c.res.phase != "" {
		u.Object["status"] = map[string]any{"phase": c.res.phase}
	}
	if c.res.isNamespace() {
		finalizers, _, _ := unstructured.NestedStringSlice(u.Object, "spec", "finalizers")
		if !slices.Contains(finalizers, string(corev1.FinalizerKubernetes)) {
			finalizers = append(finalizers, string(corev1.FinalizerKubernetes))
		}
		u.Object["spec"] = map[string]any{"finalizers": toAny(finalizers)}
	}
	return nil
}

// insert names u and stores it.
func (s *Server) insert(c *call, u *unstructured.Unstructured) (*object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u.GetName() == "" && u.GetGenerateName() != "" {
		prefix := u.GetGenerateName()
		prefix = prefix[:min(len(prefix), maxNamePrefix)]
		u.SetName(prefix + utilrand.String(suffixLength))
		for c.table.get(u.GetNamespace(), u.GetName()) != nil {
			u.SetName(prefix + utilrand.String(suffixLength))
		}
	}
	if err := c.res.initialise(u); err != nil {
		return nil, err
	}
	if c.res.Namespaced {
		if err := s.admit(c.res, u); err != nil {
			return nil, err
		}
	}
	if c.table.get(u.GetNamespace(), u.GetName()) != nil {
		return nil, apierrors.NewAlreadyExists(c.res.groupResource(), u.GetName())
	}
	if c.table.ending {
		return nil, apierrors.NewForbidden(c.res.groupResource(), u.GetName(), errEnding)
	}
	if c.res.isDefinition() {
		if _, faults := define(u); len(faults) > 0 {
			return nil, c.res.invalid(u, faults)
		}
	}
	if c.dryRun() {
		u.SetResourceVersion("")
		return newObject(u, 0)
	}
	if c.res.isDefinition() {
		if err := s.establish(u); err != nil {
			return nil, err
		}
	}
	return s.put(c.table, nil, u)
}
