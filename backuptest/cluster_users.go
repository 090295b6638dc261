package backuptest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// ConfigFor returns a new configuration like [Cluster.Config] for a user who may do nothing but what rules allow in all
// namespaces, what roles bound to the user in the cluster allow ([Cluster.Bind], or RoleBindings and ClusterRoleBindings
// made by any client), discovery, and asking what is allowed (SelfSubjectAccessReview). Everything else is answered with
// 403 in a real server's words. A service account's user is "system:serviceaccount:NAMESPACE:NAME". Rules add up over
// calls. The user travels in the configuration's Impersonate field, so Config with that field set is the same user. An
// empty user is the administrator of [Cluster.Config], whom no rule limits.
func (c *Cluster) ConfigFor(user string, rules ...rbacv1.PolicyRule) *rest.Config {
	if user != "" {
		c.server.Grant(user, rules...)
	}
	config := c.Config()
	config.Impersonate.UserName = user
	return config
}

// Bind stores the Roles and ClusterRoles of a YAML or JSON file, as kubectl apply takes it, and binds them to a user: a
// Role in its namespace, a ClusterRole in the whole cluster. Bindings in the file are stored as they are. A role or a
// binding that exists is left as it is. An empty user, a file that cannot be read, another kind of object, or a file
// without a role is an error that says so, and nothing of the file is stored.
func (c *Cluster) Bind(user string, roles io.Reader) error {
	if user == "" {
		return errors.New("bind roles: the user's name is empty")
	}
	var objects []runtime.Object
	err := eachDocument(roles, func(items []*unstructured.Unstructured) error {
		bound, err := bindings(user, items)
		objects = append(objects, bound...)
		return err
	})
	if err != nil {
		return fmt.Errorf("bind roles: %w", err)
	}
	if len(objects) == 0 {
		return errors.New("bind roles: the file has no role")
	}
	if err := c.add(true, objects); err != nil {
		return fmt.Errorf("bind roles: %w", err)
	}
	return nil
}

// bindings is the given roles and bindings and, for each role, one that binds it to the user.
func bindings(user string, items []*unstructured.Unstructured) ([]runtime.Object, error) {
	var objects []runtime.Object
	for _, u := range items {
		if u.GroupVersionKind().GroupVersion() != rbacv1.SchemeGroupVersion {
			return nil, fmt.Errorf("%s: it is no role", describe(u))
		}
		objects = append(objects, u)
		switch u.GetKind() {
		case "Role":
			objects = append(objects, &rbacv1.RoleBinding{ObjectMeta: boundTo(user, u), Subjects: subjects(user), RoleRef: refTo(u)})
		case "ClusterRole":
			objects = append(objects, &rbacv1.ClusterRoleBinding{ObjectMeta: boundTo(user, u), Subjects: subjects(user), RoleRef: refTo(u)})
		case "RoleBinding", "ClusterRoleBinding":
		default:
			return nil, fmt.Errorf("%s: it is no role", describe(u))
		}
	}
	return objects, nil
}

func boundTo(user string, role *unstructured.Unstructured) metav1.ObjectMeta {
	name := role.GetName() + ":" + user
	if len(path.IsValidPathSegmentName(name)) > 0 { // names of users are free, those of bindings are not
		name = fmt.Sprintf("%s:%x", role.GetName(), sha256.Sum256([]byte(user)))
	}
	return metav1.ObjectMeta{Namespace: role.GetNamespace(), Name: name}
}

func subjects(user string) []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
}

func refTo(role *unstructured.Unstructured) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: role.GetKind(), Name: role.GetName()}
}

// RequestsBy returns how many requests a user of [Cluster.ConfigFor] sent, counted as [Cluster.Requests] counts them, which
// has them too. [Cluster.ResetRequests] forgets both. The caller owns the map.
func (c *Cluster) RequestsBy(user string) map[string]int { return c.counter.RequestsBy(user) }
