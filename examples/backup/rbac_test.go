package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
	"testing/synctest"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// The roles allow each request that runs send, and none that no run sends. X3.
func TestRoles(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[string]bool{}
	dec := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		var role rbacv1.ClusterRole // a Role has the same rules
		if err := dec.Decode(&role); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					allowed[verb+" "+resource] = true
				}
			}
		}
	}
	used := map[string]bool{
		"create pods/exec": true, "get pods/exec": true, // the embedded cluster runs no commands
		"patch volumesnapshots": true, // by Action.Cancel, at the poller's deadline of hours
	}
	synctest.Test(t, func(t *testing.T) {
		for _, args := range [][]string{{}, {"-wait", "poll"}, {"-fail", "media=no"}, {"-slow", "media=40s"}} {
			stdout, _, _ := runHere(t, append([]string{"-o", "json", "-store", t.TempDir()}, args...)...)
			for request := range decode(t, stdout).Requests {
				used[request] = true
				if !allowed[request] {
					t.Errorf("%v sent %q, which rbac.yaml does not allow", args, request)
				}
			}
		}
	})
	for request := range allowed {
		if !used[request] {
			t.Errorf("rbac.yaml allows %q, which no run sent", request)
		}
	}
}
