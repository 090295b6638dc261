package audit_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/sheetanchor/sheetanchor/test/e2e/audit"
)

const snapshotGroup = "snapshot.storage.k8s.io"

func TestRules(t *testing.T) {
	t.Parallel()
	events, err := audit.Open(write(t,
		done("1", "list", "/api/v1/pods", 200, 1),
		done("2", "list", "/api/v1/pods", 200, 2),
		done("3", "get", "/api/v1/namespaces/app/pods/db", 200, 3),
		done("4", "get", "/api/v1/namespaces/app/persistentvolumeclaims/data", 200, 4),
		done("5", "list", "/api/v1/persistentvolumeclaims", 403, 5),
		done("6", "create", "/api/v1/namespaces/app/pods/db/exec", 101, 6),
		done("7", "create", snapshots, 201, 7),
		done("8", "get", "/apis", 200, 8),
		done("9", "get", "/api", 200, 9),
	)).Events(audit.Mark{}, "u")
	if err != nil {
		t.Fatal(err)
	}
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods/exec"}, Verbs: []string{"create"}},
		{APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims", "pods"}, Verbs: []string{"get", "list"}},
		{APIGroups: []string{snapshotGroup}, Resources: []string{"volumesnapshots"}, Verbs: []string{"create"}},
		{NonResourceURLs: []string{"/api", "/apis"}, Verbs: []string{"get"}},
	}
	if diff := cmp.Diff(want, audit.Rules(events)); diff != "" {
		t.Errorf("Rules (-want +got):\n%s", diff)
	}
	if got := audit.Rules(nil); got != nil {
		t.Errorf("Rules of nothing = %v, want none", got)
	}
}

func TestCompareRules(t *testing.T) {
	t.Parallel()
	rule := func(group, resources, verbs string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: strings.Fields(resources), Verbs: strings.Fields(verbs)}
	}
	path := func(paths, verbs string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{NonResourceURLs: strings.Fields(paths), Verbs: strings.Fields(verbs)}
	}
	cases := map[string]struct {
		reason          string
		granted, used   []rbacv1.PolicyRule
		unused, missing []string
	}{
		"the same in other words": {
			reason:  "what counts is what is allowed",
			granted: []rbacv1.PolicyRule{rule("", "pods", "get list"), rule("", "pods", "list watch")},
			used:    []rbacv1.PolicyRule{rule("", "pods", "get list watch")},
		},
		"too much and too little": {
			reason:  "each is told, sorted",
			granted: []rbacv1.PolicyRule{rule("", "secrets pods/exec", "get create"), path("/healthz", "get")},
			used:    []rbacv1.PolicyRule{rule("", "pods/exec", "create"), rule(snapshotGroup, "volumesnapshots/status volumesnapshots", "patch"), path("/apis", "get")},
			unused:  []string{"create secrets", "get /healthz", "get pods/exec", "get secrets"},
			missing: []string{"get /apis", "patch volumesnapshots.snapshot.storage.k8s.io", "patch volumesnapshots.snapshot.storage.k8s.io/status"},
		},
		"another group": {
			reason:  "a resource is one of its group",
			granted: []rbacv1.PolicyRule{rule("a", "pods", "get")},
			used:    []rbacv1.PolicyRule{rule("", "pods", "get")},
			unused:  []string{"get pods.a"}, missing: []string{"get pods"},
		},
		"wildcards": {
			reason:  "one is used as soon as something it allows is",
			granted: []rbacv1.PolicyRule{rule("*", "*", "get"), rule("", "*/status", "*"), rule("b", "*", "*"), path("/api*", "get"), path("*", "post")},
			used:    []rbacv1.PolicyRule{rule("a", "x/y", "get"), rule("", "pods/status", "patch"), path("/apis/apps", "get")},
			unused:  []string{"* *.b", "post *"},
		},
		"a path is no resource": {
			reason:  "rules of either kind do not allow the other",
			granted: []rbacv1.PolicyRule{rule("*", "*", "*")},
			used:    []rbacv1.PolicyRule{path("/apis", "get")},
			unused:  []string{"* *.*"}, missing: []string{"get /apis"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			unused, missing := audit.CompareRules(tc.granted, tc.used)
			if diff := cmp.Diff(tc.unused, unused); diff != "" {
				t.Errorf("%s: unused (-want +got):\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.missing, missing); diff != "" {
				t.Errorf("%s: missing (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// failed collects what an assertion says.
type failed []string

func (f *failed) Helper() {}

func (f *failed) Errorf(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

func TestAssertCounts(t *testing.T) {
	t.Parallel()
	log := audit.Open(write(t, done("1", "list", "/api/v1/pods", 200, 1), done("2", "get", "/apis", 200, 2), done("3", "get", "/apis", 200, 3)))
	cases := map[string]struct {
		reason string
		log    *audit.Log
		want   map[string]int
		said   string
	}{
		"equal":         {reason: "nothing is said", log: log, want: map[string]int{"list pods": 1, "get /apis": 2}},
		"a zero wanted": {reason: "what is not there is 0", log: log, want: map[string]int{"list pods": 1, "get /apis": 2, "create pods": 0}},
		"different":     {reason: "each difference has a line", log: log, want: map[string]int{"list pods": 2, "create pods": 1, "get /apis": 2}, said: "requests of \"u\" differ:\ncreate pods: want 1, got 0\nlist pods: want 2, got 1"},
		"unreadable":    {reason: "a log that cannot be read is no equal log", log: audit.Open(t.TempDir()), said: "is a directory"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var said failed
			ok := tc.log.AssertCounts(&said, tc.want, audit.Mark{}, "u")
			if text := strings.Join(said, "\n"); ok != (tc.said == "") || !strings.Contains(text, tc.said) || ok && text != "" {
				t.Errorf("%s: AssertCounts = %t and said %q, want %q", tc.reason, ok, text, tc.said)
			}
		})
	}
}
