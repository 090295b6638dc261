package apiserver

import (
	"errors"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// rulesFor returns the rules of the roles that are bound to a user in the whole cluster and in a namespace. A bound role
// that does not exist is an error, beside the rules of the others. It needs the lock.
func (s *Server) rulesFor(who identity, namespace string) (rules []rbacv1.PolicyRule, err error) {
	var errs []error
	add := func(ref rbacv1.RoleRef, namespace string) {
		found, err := s.roleRules(ref, namespace)
		rules = append(rules, found...)
		errs = append(errs, err)
	}
	for _, o := range s.rbacObjects("clusterrolebindings", "") {
		var binding rbacv1.ClusterRoleBinding
		if into(o, &binding) && who.isOneOf(binding.Subjects, "") {
			add(binding.RoleRef, "")
		}
	}
	if namespace != "" {
		for _, o := range s.rbacObjects("rolebindings", namespace) {
			var binding rbacv1.RoleBinding
			if into(o, &binding) && who.isOneOf(binding.Subjects, namespace) {
				add(binding.RoleRef, namespace)
			}
		}
	}
	return rules, errors.Join(errs...)
}

func (s *Server) rbacObjects(plural, namespace string) []*object {
	t := s.table(rbacv1.GroupName, plural)
	if t == nil {
		return nil
	}
	return t.within(namespace)
}

func (s *Server) roleRules(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	plural := "clusterroles"
	if ref.Kind == "Role" {
		plural = "roles"
	} else {
		namespace = ""
	}
	t := s.table(rbacv1.GroupName, plural)
	if t == nil {
		return nil, nil
	}
	o := t.get(namespace, ref.Name)
	if o == nil {
		return nil, fmt.Errorf("%s.%s %q not found", t.res.singular(), t.res.Group, ref.Name)
	}
	var role rbacv1.ClusterRole // of whose fields a Role has a part
	if !into(o, &role) {
		return nil, nil
	}
	return role.Rules, nil
}

// isOneOf reports whether a binding's subjects, one of which may be a service account of the binding's own namespace,
// include the user.
func (who identity) isOneOf(subjects []rbacv1.Subject, namespace string) bool {
	return slices.ContainsFunc(subjects, func(subject rbacv1.Subject) bool {
		switch subject.Kind {
		case rbacv1.UserKind:
			return subject.Name == who.name
		case rbacv1.GroupKind:
			return slices.Contains(who.groups, subject.Name)
		case rbacv1.ServiceAccountKind:
			home := subject.Namespace
			if home == "" {
				home = namespace
			}
			return home != "" && who.name == serviceAccountPrefix+home+":"+subject.Name
		default:
			return false
		}
	})
}

// into reads a stored object as its Go type. What does not fit, which no write lets through, is left out.
func into(o *object, typed any) bool {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(o.tree().Object, typed) == nil
}
