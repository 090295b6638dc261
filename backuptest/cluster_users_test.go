package backuptest_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

func shop(names ...string) []runtime.Object {
	objs := make([]runtime.Object, 0, len(names))
	for _, name := range names {
		objs = append(objs, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}})
	}
	return objs
}

// B1: a user may do what rules say, and is told the rest in the words of a real server.
func TestForbidden(t *testing.T) {
	t.Parallel()
	reader := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}
	tests := map[string]struct {
		reason string
		rules  []rbacv1.PolicyRule
		do     func(ctx context.Context, core kubernetes.Interface) error
		want   string // part of the refusal, "" for none
	}{
		"nothing allowed": {
			reason: "a user without a rule may do nothing",
			do: func(ctx context.Context, core kubernetes.Interface) error {
				_, err := core.CoreV1().Pods("shop").List(ctx, metav1.ListOptions{})
				return err
			},
			want: `pods is forbidden: User "x" cannot list resource "pods" in API group "" in the namespace "shop"`,
		},
		"cluster scope": {
			reason: "a list over all namespaces is refused as such",
			do: func(ctx context.Context, core kubernetes.Interface) error {
				_, err := core.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
				return err
			},
			want: `deployments.apps is forbidden: User "x" cannot list resource "deployments" in API group "apps" at the cluster scope`,
		},
		"named": {
			reason: "the object's name stands in the refusal",
			do: func(ctx context.Context, core kubernetes.Interface) error {
				return core.CoreV1().Pods("shop").Delete(ctx, "web", metav1.DeleteOptions{})
			},
			want: `pods "web" is forbidden: User "x" cannot delete resource "pods" in API group "" in the namespace "shop"`,
		},
		"subresource": {
			reason: "pods does not stand for pods/status",
			rules:  []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"*"}}},
			do: func(ctx context.Context, core kubernetes.Interface) error {
				_, err := core.CoreV1().Pods("shop").UpdateStatus(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, metav1.UpdateOptions{})
				return err
			},
			want: `cannot update resource "pods/status" in API group "" in the namespace "shop"`,
		},
		"delete is not deletecollection": {
			reason: "deleting many has a verb of its own",
			rules:  []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"delete"}}},
			do: func(ctx context.Context, core kubernetes.Interface) error {
				return core.CoreV1().ConfigMaps("shop").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
			},
			want: `cannot deletecollection resource "configmaps"`,
		},
		"another name": {
			reason: "resourceNames limit a rule",
			rules:  []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}, ResourceNames: []string{"one"}}},
			do: func(ctx context.Context, core kubernetes.Interface) error {
				_, err := core.CoreV1().ConfigMaps("shop").Get(ctx, "two", metav1.GetOptions{})
				return err
			},
			want: `configmaps "two" is forbidden`,
		},
		"the name": {
			reason: "resourceNames allow what they name",
			rules:  []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "watch"}, ResourceNames: []string{"one"}}},
			do: func(ctx context.Context, core kubernetes.Interface) error {
				w, err := core.CoreV1().ConfigMaps("shop").Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=one"})
				if err == nil {
					w.Stop()
				}
				return err
			},
		},
		"wrong group": {
			reason: "the core group's rule is not one for apps",
			rules:  []rbacv1.PolicyRule{reader, {APIGroups: []string{""}, Resources: []string{"*"}, Verbs: []string{"*"}}},
			do: func(ctx context.Context, core kubernetes.Interface) error {
				_, err := core.AppsV1().Deployments("shop").Get(ctx, "web", metav1.GetOptions{})
				return err
			},
			want: `deployments.apps "web" is forbidden`,
		},
		"everything": {
			reason: "asterisks allow all",
			rules:  []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}},
			do: func(ctx context.Context, core kubernetes.Interface) error {
				return core.CoreV1().ConfigMaps("shop").Delete(ctx, "one", metav1.DeleteOptions{})
			},
		},
		"discovery": {
			reason: "every user may discover",
			do: func(_ context.Context, core kubernetes.Interface) error {
				_, err := core.Discovery().ServerGroups()
				return err
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, backuptest.Options{Objects: shop("one", "two")}, func(c clients) {
				err := tc.do(c.t.Context(), kubernetes.NewForConfigOrDie(c.cluster.ConfigFor("x", tc.rules...)))
				switch {
				case tc.want == "" && err != nil:
					c.t.Errorf("%s: %v", tc.reason, err)
				case tc.want != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), tc.want)):
					c.t.Errorf("%s: got %v, want Forbidden: %s", tc.reason, err, tc.want)
				}
			})
		})
	}
}

// B1: Roles and ClusterRoles from a file hold where they are bound, for users and for service accounts, as does what
// clients bind; requests are counted by user.
func TestBind(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("../examples/backup/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	inBubble(t, backuptest.Options{Objects: shop("one")}, func(c clients) {
		t := c.t
		const user = "system:serviceaccount:shop:backup"
		if err := c.cluster.Bind(user, strings.NewReader(string(file))); err != nil {
			t.Fatal(err)
		}
		if err := c.cluster.Bind(user, strings.NewReader(string(file))); err != nil {
			t.Errorf("bound twice: %v", err)
		}
		core := kubernetes.NewForConfigOrDie(c.cluster.ConfigFor(user))
		if _, err := core.CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Errorf("list pods = %v, which the Role allows", err)
		}
		if _, err := core.CoreV1().PersistentVolumes().List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Errorf("list volumes = %v, which the ClusterRole allows", err)
		}
		if _, err := core.CoreV1().Namespaces().Get(t.Context(), "shop", metav1.GetOptions{}); err != nil {
			t.Errorf("get namespace = %v, which the ClusterRole allows", err)
		}
		if _, err := core.CoreV1().Pods("app").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("list pods elsewhere = %v, want Forbidden", err)
		}
		if err := core.CoreV1().ConfigMaps("shop").Delete(t.Context(), "one", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("delete = %v, want Forbidden", err)
		}
		want := map[string]int{"list pods": 2, "list persistentvolumes": 1, "get namespaces": 1, "delete configmaps": 1}
		if diff := cmp.Diff(want, c.cluster.RequestsBy(user)); diff != "" {
			t.Errorf("requests by user -want +got:\n%s", diff)
		}
		if n := len(c.cluster.RequestsBy("nobody")); n != 0 {
			t.Errorf("%d requests by nobody", n)
		}

		// by a client's own binding, to a group of service accounts, of a role that is not there yet
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "late"},
			Subjects: []rbacv1.Subject{
				{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "system:serviceaccounts:other"},
				{Kind: "ServiceAccount", Namespace: "other", Name: "x"},
			},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "late"},
		}
		if _, err := c.core.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		other := kubernetes.NewForConfigOrDie(c.cluster.ConfigFor("system:serviceaccount:other:y"))
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "shop", Verb: "get", Resource: "pods", Subresource: "log", Name: "web"},
		}}
		asked := func() authorizationv1.SubjectAccessReviewStatus {
			t.Helper()
			got, err := other.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return got.Status
		}
		const missing = `clusterrole.rbac.authorization.k8s.io "late" not found`
		if got := asked(); got.Allowed || !strings.Contains(got.Reason, missing) {
			t.Errorf("review = %+v, want not allowed: %s", got, missing)
		}
		if _, err := other.CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "RBAC: "+missing) {
			t.Errorf("list = %v, want Forbidden: %s", err, missing)
		}
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"*/log"}, Verbs: []string{"get"}}}}
		if _, err := c.core.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := asked(); !got.Allowed {
			t.Errorf("review = %+v, want allowed", got)
		}
	})
}

func TestBindRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ user, file, want string }{
		"no user":      {"", "", "user's name is empty"},
		"no role":      {"x", "# nothing\n", "has no role"},
		"not YAML":     {"x", "a: [", "document 1"},
		"another kind": {"x", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}\n", "v1 ConfigMap b/a: it is no role"},
		"a kind of the group": {
			"x", "apiVersion: rbac.authorization.k8s.io/v1\nkind: Other\nmetadata: {name: a}\n", "it is no role",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := backuptest.New(t).Bind(tc.user, strings.NewReader(tc.file))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Bind = %v, want %q", err, tc.want)
			}
		})
	}
}

// B1: a binding's subjects are users, groups and service accounts, one without a namespace being of the binding's own.
func TestSubjects(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		subject rbacv1.Subject
		user    string
		allowed bool
	}{
		"user":              {rbacv1.Subject{Kind: "User", Name: "x"}, "x", true},
		"another user":      {rbacv1.Subject{Kind: "User", Name: "y"}, "x", false},
		"everybody":         {rbacv1.Subject{Kind: "Group", Name: "system:authenticated"}, "x", true},
		"another group":     {rbacv1.Subject{Kind: "Group", Name: "system:masters"}, "x", false},
		"account":           {rbacv1.Subject{Kind: "ServiceAccount", Namespace: "other", Name: "x"}, "system:serviceaccount:other:x", true},
		"account of its":    {rbacv1.Subject{Kind: "ServiceAccount", Name: "x"}, "system:serviceaccount:shop:x", true},
		"account elsewhere": {rbacv1.Subject{Kind: "ServiceAccount", Name: "x"}, "system:serviceaccount:other:x", false},
		"unknown kind":      {rbacv1.Subject{Kind: "Robot", Name: "x"}, "x", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, backuptest.Options{Objects: shop("one")}, func(c clients) {
				t := c.t
				if err := c.cluster.Add(
					&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "r"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}}},
					&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "b"}, Subjects: []rbacv1.Subject{tc.subject}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "r"}},
				); err != nil {
					t.Fatal(err)
				}
				_, err := kubernetes.NewForConfigOrDie(c.cluster.ConfigFor(tc.user)).CoreV1().ConfigMaps("shop").Get(t.Context(), "one", metav1.GetOptions{})
				if (err == nil) != tc.allowed || err != nil && !apierrors.IsForbidden(err) {
					t.Errorf("get = %v, want it allowed %v", err, tc.allowed)
				}
			})
		})
	}
}
