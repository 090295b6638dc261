package audit

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// permission is one thing that a rule allows.
type permission struct {
	group, resource string // resource with its subresource; empty for a path
	path            string
	verb            string
}

func (p permission) String() string {
	if p.path != "" {
		return p.verb + " " + p.path
	}
	resource, subresource, _ := strings.Cut(p.resource, "/")
	if p.group != "" {
		resource += "." + p.group
	}
	if subresource != "" {
		resource += "/" + subresource
	}
	return p.verb + " " + resource
}

// covers reports whether a granted permission, which may hold wildcards, allows used.
func (p permission) covers(used permission) bool {
	if p.verb != rbacv1.VerbAll && p.verb != used.verb {
		return false
	}
	if p.path != "" || used.path != "" {
		prefix, wild := strings.CutSuffix(p.path, "*")
		return used.path != "" && (p.path == used.path || wild && strings.HasPrefix(used.path, prefix))
	}
	if p.group != rbacv1.APIGroupAll && p.group != used.group {
		return false
	}
	subresource, wild := strings.CutPrefix(p.resource, "*/")
	return p.resource == rbacv1.ResourceAll || p.resource == used.resource ||
		wild && strings.HasSuffix(used.resource, "/"+subresource)
}

// Rules are the RBAC rules that allow these requests and nothing else, sorted: a rule for each group and set of verbs.
// Requests that were refused count too. Names and namespaces of objects are not told apart. An API server may ask for more
// than the verb of the request: an exec over WebSocket needs create on pods/exec besides get.
func Rules(events []Event) []rbacv1.PolicyRule {
	verbs := map[permission][]string{} // by permission without its verb
	for _, e := range events {
		key := permission{path: e.Path}
		if e.IsResource() {
			key = permission{group: e.Group, resource: e.ResourcePath()}
		}
		verbs[key] = append(verbs[key], e.Verb)
	}
	type alike struct{ group, verbs, kind string }
	rules := map[alike]rbacv1.PolicyRule{}
	for _, key := range slices.SortedFunc(maps.Keys(verbs), compare) {
		set := slices.Compact(slices.Sorted(slices.Values(verbs[key])))
		same := alike{group: key.group, verbs: strings.Join(set, ","), kind: "resource"}
		if key.path != "" {
			same.kind = "path"
		}
		rule := rules[same]
		rule.Verbs = set
		if key.path != "" {
			rule.NonResourceURLs = append(rule.NonResourceURLs, key.path)
		} else {
			rule.APIGroups = []string{key.group}
			rule.Resources = append(rule.Resources, key.resource)
		}
		rules[same] = rule
	}
	var out []rbacv1.PolicyRule
	for _, same := range slices.SortedFunc(maps.Keys(rules), func(a, b alike) int {
		return cmp.Or(-cmp.Compare(a.kind, b.kind), cmp.Compare(a.group, b.group), cmp.Compare(a.verbs, b.verbs))
	}) {
		out = append(out, rules[same])
	}
	return out
}

func compare(a, b permission) int {
	return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.resource, b.resource), cmp.Compare(a.path, b.path), cmp.Compare(a.verb, b.verb))
}

// CompareRules tells what granted rules allow that was not used, and what was used that they do not allow, each as
// sorted lines "get pods/exec", "list volumesnapshots.snapshot.storage.k8s.io", "get /apis". A granted wildcard is unused
// when nothing it allows was used. Limits to names of objects are not looked at.
func CompareRules(granted, used []rbacv1.PolicyRule) (unused, missing []string) {
	allowed, needed := permissions(granted), permissions(used)
	for _, p := range allowed {
		if !slices.ContainsFunc(needed, p.covers) {
			unused = append(unused, p.String())
		}
	}
	for _, n := range needed {
		if !slices.ContainsFunc(allowed, func(p permission) bool { return p.covers(n) }) {
			missing = append(missing, n.String())
		}
	}
	slices.Sort(unused)
	slices.Sort(missing)
	return slices.Compact(unused), slices.Compact(missing)
}

func permissions(rules []rbacv1.PolicyRule) []permission {
	var out []permission
	for _, rule := range rules {
		for _, verb := range rule.Verbs {
			for _, path := range rule.NonResourceURLs {
				out = append(out, permission{path: path, verb: verb})
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					out = append(out, permission{group: group, resource: resource, verb: verb})
				}
			}
		}
	}
	return out
}
