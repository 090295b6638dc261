package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sheetanchor/sheetanchor/internal/apirequest"
)

// The groups that the real server's authenticators put users in.
const (
	groupAuthenticated   = "system:authenticated"
	groupServiceAccounts = "system:serviceaccounts"
	serviceAccountPrefix = "system:serviceaccount:"
)

// identity is who sends a request.
type identity struct {
	name   string
	groups []string
}

// identify reads who a request is from out of the impersonation headers. Without them it is from the administrator, who
// is allowed everything, and ok is false.
func identify(req *http.Request, info apirequest.Info) (who identity, ok bool) {
	if info.User == "" {
		return identity{}, false
	}
	who = identity{name: info.User, groups: append(slices.Clone(req.Header.Values("Impersonate-Group")), groupAuthenticated)}
	if account, isAccount := strings.CutPrefix(info.User, serviceAccountPrefix); isAccount {
		namespace, _, _ := strings.Cut(account, ":")
		who.groups = append(who.groups, groupServiceAccounts, groupServiceAccounts+":"+namespace)
	}
	return who, true
}

// attributes are what a permission is asked for.
type attributes struct {
	verb, group, resource, namespace, name string
	path                                   string // where resource is empty
}

func attributesOf(info apirequest.Info) attributes {
	if !info.IsResource() {
		return attributes{verb: info.Verb, path: info.Path}
	}
	a := attributes{verb: info.Verb, group: info.Group, resource: info.ResourcePath(), namespace: info.Namespace, name: info.Name}
	if a.group == "" && info.Resource == "namespaces" {
		a.namespace = info.Name
	}
	return a
}

// Grant allows a user what rules say, in all namespaces, beside what the roles bound to the user allow.
func (s *Server) Grant(user string, rules ...rbacv1.PolicyRule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rule := range rules {
		s.grants[user] = append(s.grants[user], *rule.DeepCopy())
	}
}

// authorize refuses, in the real server's words, what the sender of a request is not allowed.
func (s *Server) authorize(req *http.Request, info apirequest.Info) error {
	who, ok := identify(req, info)
	if !ok {
		return nil
	}
	a := attributesOf(info)
	allowed, err := s.allows(who, a)
	if allowed {
		return nil
	}
	message := a.refusal(who)
	if err != nil {
		message += ": RBAC: " + err.Error()
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: info.Group, Resource: info.Resource}, a.name, errors.New(message))
}

func (a attributes) refusal(who identity) string {
	if a.resource == "" {
		return fmt.Sprintf("User %q cannot %s path %q", who.name, a.verb, a.path)
	}
	where := "at the cluster scope"
	if a.namespace != "" {
		where = fmt.Sprintf("in the namespace %q", a.namespace)
	}
	return fmt.Sprintf("User %q cannot %s resource %q in API group %q %s", who.name, a.verb, a.resource, a.group, where)
}

// allows looks for a rule that allows a. err says which bound roles do not exist.
func (s *Server) allows(who identity, a attributes) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	covers := func(rule rbacv1.PolicyRule) bool { return a.coveredBy(&rule) }
	if slices.ContainsFunc(everyone, covers) || slices.ContainsFunc(s.grants[who.name], covers) {
		return true, nil
	}
	rules, err := s.rulesFor(who, a.namespace)
	return slices.ContainsFunc(rules, covers), err
}

// everyone may discover what the server has and ask what he may do.
var everyone = []rbacv1.PolicyRule{
	{Verbs: []string{"get"}, NonResourceURLs: []string{"/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz", "/version", "/version/"}},
	{Verbs: []string{"create"}, APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"selfsubjectaccessreviews"}},
}

func (a attributes) coveredBy(rule *rbacv1.PolicyRule) bool {
	if !has(rule.Verbs, a.verb) {
		return false
	}
	if a.resource == "" {
		return slices.ContainsFunc(rule.NonResourceURLs, func(pattern string) bool {
			prefix, wild := strings.CutSuffix(pattern, "*")
			return pattern == a.path || wild && strings.HasPrefix(a.path, prefix)
		})
	}
	_, sub, _ := strings.Cut(a.resource, "/")
	return has(rule.APIGroups, a.group) &&
		(has(rule.Resources, a.resource) || sub != "" && slices.Contains(rule.Resources, "*/"+sub)) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, a.name))
}

// has reports whether a rule's list names a value or all.
func has(list []string, value string) bool {
	return slices.Contains(list, "*") || slices.Contains(list, value)
}
