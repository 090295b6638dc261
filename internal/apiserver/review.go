package apiserver

import (
	"net/http"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/sheetanchor/sheetanchor/internal/apirequest"
)

// isReview reports whether a request asks what its sender may do (SelfSubjectAccessReview).
func isReview(info apirequest.Info) bool {
	return info.Group == authorizationv1.GroupName && info.Version == "v1" && info.Resource == "selfsubjectaccessreviews" &&
		info.Name == "" && info.Verb == apirequest.VerbCreate
}

// review answers what the sender may do. Nothing is stored.
func (s *Server) review(req *http.Request, info apirequest.Info, body []byte) (*http.Response, error) {
	var asked authorizationv1.SelfSubjectAccessReview
	kind := authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview")
	if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, &kind, &asked); err != nil {
		return nil, apierrors.NewBadRequest("the access review cannot be decoded: " + err.Error())
	}
	a, err := asks(asked.Spec)
	if err != nil {
		return nil, err
	}
	asked.TypeMeta = metav1.TypeMeta{Kind: "SelfSubjectAccessReview", APIVersion: "authorization.k8s.io/v1"}
	asked.Status = authorizationv1.SubjectAccessReviewStatus{Allowed: true}
	if who, ok := identify(req, info); ok {
		allowed, err := s.allows(who, a)
		asked.Status.Allowed = allowed
		if err != nil && !allowed {
			asked.Status.Reason = "RBAC: " + err.Error()
		}
	}
	return answer(req, http.StatusCreated, encode(&asked)), nil
}

func asks(spec authorizationv1.SelfSubjectAccessReviewSpec) (attributes, error) {
	resource, path := spec.ResourceAttributes, spec.NonResourceAttributes
	switch {
	case (resource == nil) == (path == nil):
		return attributes{}, apierrors.NewBadRequest("spec: exactly one of resourceAttributes and nonResourceAttributes is required")
	case path != nil:
		return attributes{verb: path.Verb, path: path.Path}, nil
	}
	a := attributes{verb: resource.Verb, group: resource.Group, resource: resource.Resource, namespace: resource.Namespace, name: resource.Name}
	if resource.Subresource != "" {
		a.resource += "/" + resource.Subresource
	}
	return a, nil
}
