package e2e_test

import (
	"path/filepath"
	"testing"

	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/operations/configmapstore"
	"github.com/sheetanchor/sheetanchor/operations/operationstest"
	"github.com/sheetanchor/sheetanchor/test/e2e/app"
	"github.com/sheetanchor/sheetanchor/test/e2e/audit"
)

// O5: O7: O8: O13: X3: all-13: the store in ConfigMaps keeps the contract of stores on a real API server: two owners, crashes, lost
// answers, hostile bytes, the largest document. All its user may do is what docs/rbac/configmapstore.yaml says, and all of that is used.
func TestConfigMapStore(t *testing.T) {
	t.Parallel()
	cluster(t)
	path := filepath.Join(root, "docs", "rbac", "configmapstore.yaml")
	a := applicationAs(t, "store", path, app.Spec{})
	_, core := clients(t, a.User)
	opts := operationstest.Options{
		MaxBytes: 1 << 20,
		Open: func() (operations.Store, error) {
			return configmapstore.New(core, a.Namespace, configmapstore.Options{})
		},
	}
	for _, part := range operationstest.Cases() {
		t.Run(part.Name, func(t *testing.T) { part.Run(t, opts) })
	}
	roles, err := app.ReadRoles(path)
	must(t, err)
	events, err := cluster(t).Stack.Audit().Events(audit.Mark{}, a.User, audit.NoDiscovery)
	must(t, err)
	unused, missing := audit.CompareRules(roles[0].Rules, audit.Rules(events))
	if len(unused)+len(missing) > 0 {
		t.Errorf("allowed and not used: %q; asked for and not allowed: %q", unused, missing)
	}
	t.Logf("requests: %v", audit.Count(events))
}
