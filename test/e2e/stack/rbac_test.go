package stack_test

import (
	"net/http"
	"strconv"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sheetanchor/sheetanchor/test/e2e/audit"
	"github.com/sheetanchor/sheetanchor/test/e2e/stack"
)

func itoa(n int) string { return strconv.Itoa(n) }

// testRBAC reads the audit log of all that the cases before did. An API server that was just started refuses what its
// roles allow, until it knows them, so that the roles are asked about each refusal.
func testRBAC(x steered) {
	t, s, c := x.T, x.stack, x.cluster
	for _, user := range []string{stack.ControllerManager, stack.SnapshotController, stack.Snapshotter, stack.Provisioner, stack.Kubelet} {
		events, err := s.Audit().Events(audit.Mark{}, user)
		if err != nil {
			t.Fatal(err)
		}
		if len(events) == 0 {
			t.Errorf("no request of %s in the audit log", user)
		}
		for _, e := range events {
			if e.Code == http.StatusForbidden && !c.allowed(t, e) {
				t.Errorf("%s was refused: %s", user, e)
			}
		}
	}
}

// allowed asks whether what was refused is allowed now.
func (c cluster) allowed(t *testing.T, e audit.Event) bool {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: e.User}}
	if e.IsDiscovery() {
		review.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Verb: e.Verb, Path: e.Path}
		review.Spec.Groups = []string{"system:authenticated"}
	} else {
		review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Verb: e.Verb, Group: e.Group, Version: e.Version, Resource: e.Resource, Subresource: e.Subresource, Namespace: e.Namespace, Name: e.Name,
		}
	}
	answer, err := c.core.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Status.Allowed
}
