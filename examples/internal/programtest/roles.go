package programtest

import (
	"bytes"
	"errors"
	"io"
	"os"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// CheckRoles holds the roles of a file to the requests that were sent: each is allowed, and nothing else is.
func CheckRoles(t TB, file string, sent map[string]bool) {
	t.Helper()
	allowed := readRoles(t, file)
	for request := range sent {
		if !allowed[request] {
			t.Errorf("%q was sent, which %s does not allow", request, file)
		}
	}
	for request := range allowed {
		if !sent[request] {
			t.Errorf("%s allows %q, which no run sent", file, request)
		}
	}
}

func readRoles(t TB, file string) map[string]bool {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v", err)
	}
	allowed := map[string]bool{}
	dec := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		var role rbacv1.ClusterRole // a Role has the same rules
		if err := dec.Decode(&role); errors.Is(err, io.EOF) {
			return allowed
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					allowed[verb+" "+resource] = true
				}
			}
		}
	}
}
