package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// ReadRoles reads a file with Roles and ClusterRoles, such as the example's rbac.yaml. A Role is returned as a ClusterRole
// with its namespace. An object of another kind, and a field that no role has, is an error.
func ReadRoles(path string) ([]rbacv1.ClusterRole, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read roles: %w", err)
	}
	var roles []rbacv1.ClusterRole
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), len(data))
	for {
		var role rbacv1.ClusterRole
		err := decoder.Decode(&role)
		if errors.Is(err, io.EOF) {
			return roles, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read roles: %s: %w", path, err)
		}
		if role.Kind != "Role" && role.Kind != "ClusterRole" {
			return nil, fmt.Errorf("read roles: %s: a %q, neither Role nor ClusterRole", path, role.Kind)
		}
		roles = append(roles, role)
	}
}

// grant gives the user of the application the roles of a file: Roles in its namespace, whatever namespace they name.
func (a *App) grant(ctx context.Context, path string) error {
	roles, err := ReadRoles(path)
	if err != nil {
		return err
	}
	var attributes []authorizationv1.ResourceAttributes
	for _, role := range roles {
		if err := a.bind(ctx, role); err != nil {
			return fmt.Errorf("give %s %s: %w", role.Kind, role.Name, err)
		}
		attributes = append(attributes, a.attributes(role)...)
	}
	return await(ctx, a.User+" may do what its roles say", func(ctx context.Context) (bool, error) {
		for _, asked := range attributes {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: a.User, ResourceAttributes: &asked}}
			answer, err := a.cluster.Core.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
			if err != nil || !answer.Status.Allowed {
				return false, err
			}
		}
		return true, nil
	})
}

// attributes are one request that a role allows.
func (a *App) attributes(role rbacv1.ClusterRole) []authorizationv1.ResourceAttributes {
	rule := role.Rules[0]
	asked := authorizationv1.ResourceAttributes{Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: rule.Resources[0]}
	if role.Kind == "Role" {
		asked.Namespace = a.Namespace
	}
	return []authorizationv1.ResourceAttributes{asked}
}

// bind makes a role and binds it to the user. Cluster roles of the application have its namespace in their names.
func (a *App) bind(ctx context.Context, role rbacv1.ClusterRole) error {
	rbac := a.cluster.Core.RbacV1()
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: a.User}}
	if role.Kind == "Role" {
		made := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: role.Name}, Rules: role.Rules}
		if _, err := rbac.Roles(a.Namespace).Create(ctx, made, metav1.CreateOptions{}); err != nil {
			return err
		}
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role.Name}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		}
		_, err := rbac.RoleBindings(a.Namespace).Create(ctx, binding, metav1.CreateOptions{})
		return err
	}
	name := a.clusterRole(role)
	made := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: a.labels()}, Rules: role.Rules}
	if _, err := rbac.ClusterRoles().Create(ctx, made, metav1.CreateOptions{}); err != nil {
		return err
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: a.labels()}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
	}
	_, err := rbac.ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	return err
}

func (a *App) clusterRole(role rbacv1.ClusterRole) string { return a.Namespace + ":" + role.Name }

// labels mark what the application has outside its namespace.
func (a *App) labels() map[string]string {
	return map[string]string{"e2e.sheetanchor.io/app": a.Namespace}
}

// revoke removes what the user was given outside the namespace.
func (a *App) revoke(ctx context.Context) error {
	only := metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: a.labels()})}
	rbac := a.cluster.Core.RbacV1()
	return errors.Join(
		ignoreGone(rbac.ClusterRoleBindings().DeleteCollection(ctx, metav1.DeleteOptions{}, only)),
		ignoreGone(rbac.ClusterRoles().DeleteCollection(ctx, metav1.DeleteOptions{}, only)),
	)
}

func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
