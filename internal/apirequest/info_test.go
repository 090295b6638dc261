package apirequest_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sheetanchor/sheetanchor/internal/apirequest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParse(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason      string
		method, url string
		want        apirequest.Info
		key         string
	}{
		"list in a namespace": {
			reason: "a GET without a name is a list",
			method: "GET", url: "/api/v1/namespaces/app/pods?limit=500",
			want: apirequest.Info{Verb: "list", Version: "v1", Resource: "pods", Namespace: "app"},
			key:  "list pods",
		},
		"cluster-wide watch": {
			reason: "the watch parameter turns a list into a watch",
			method: "GET", url: "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents?watch=true&resourceVersion=7",
			want: apirequest.Info{Verb: "watch", Group: "snapshot.storage.k8s.io", Version: "v1", Resource: "volumesnapshotcontents"},
			key:  "watch volumesnapshotcontents",
		},
		"old watch path": {
			reason: "the deprecated watch prefix is a watch too",
			method: "GET", url: "/api/v1/watch/namespaces/app/pods/a",
			want: apirequest.Info{Verb: "watch", Version: "v1", Resource: "pods", Namespace: "app", Name: "a"},
			key:  "watch pods",
		},
		"watch of one object": {
			reason: "a field selector on metadata.name names the object",
			method: "GET", url: "/api/v1/namespaces/app/pods?watch=1&fieldSelector=metadata.name%3Da",
			want: apirequest.Info{Verb: "watch", Version: "v1", Resource: "pods", Namespace: "app", Name: "a"},
			key:  "watch pods",
		},
		"get": {
			reason: "a GET with a name is a get",
			method: "GET", url: "/api/v1/persistentvolumes/pv-1",
			want: apirequest.Info{Verb: "get", Version: "v1", Resource: "persistentvolumes", Name: "pv-1"},
			key:  "get persistentvolumes",
		},
		"status update": {
			reason: "a subresource is part of the key",
			method: "PUT", url: "/api/v1/namespaces/app/pods/a/status",
			want: apirequest.Info{Verb: "update", Version: "v1", Resource: "pods", Namespace: "app", Name: "a", Subresource: "status"},
			key:  "update pods/status",
		},
		"namespace object": {
			reason: "a request about a namespace is cluster-wide",
			method: "GET", url: "/api/v1/namespaces/app",
			want: apirequest.Info{Verb: "get", Version: "v1", Resource: "namespaces", Name: "app"},
			key:  "get namespaces",
		},
		"namespace status": {
			reason: "status after a namespace's name is its subresource, not a resource in it",
			method: "PATCH", url: "/api/v1/namespaces/app/status",
			want: apirequest.Info{Verb: "patch", Version: "v1", Resource: "namespaces", Name: "app", Subresource: "status"},
			key:  "patch namespaces/status",
		},
		"delete collection": {
			reason: "a DELETE without a name is a deletecollection",
			method: "DELETE", url: "/api/v1/namespaces/app/configmaps",
			want: apirequest.Info{Verb: "deletecollection", Version: "v1", Resource: "configmaps", Namespace: "app"},
			key:  "deletecollection configmaps",
		},
		"behind a proxy": {
			reason: "a path prefix before the API root is skipped",
			method: "POST", url: "/k8s/clusters/c-1/apis/apps/v1/namespaces/app/deployments",
			want: apirequest.Info{Verb: "create", Group: "apps", Version: "v1", Resource: "deployments", Namespace: "app"},
			key:  "create deployments",
		},
		"discovery": {
			reason: "a path without a resource is counted by its path",
			method: "GET", url: "/apis",
			want: apirequest.Info{Verb: "get"},
			key:  "get /apis",
		},
		"group discovery": {
			reason: "a group and version alone name no resource",
			method: "GET", url: "/apis/apps/v1",
			want: apirequest.Info{Verb: "get", Group: "apps", Version: "v1"},
			key:  "get /apis/apps/v1",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req, err := http.NewRequestWithContext(t.Context(), tc.method, "http://server"+tc.url, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			got := apirequest.Parse(req)
			tc.want.Path = req.URL.Path
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: Parse(%s %s) -want +got:\n%s", tc.reason, tc.method, tc.url, diff)
			}
			if got.Key() != tc.key {
				t.Errorf("%s: Key() = %q, want %q", tc.reason, got.Key(), tc.key)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, path := range []string{"/api/v1/namespaces/a/pods/b/status", "/apis//v1", "/api/v1/namespaces//pods", "/watch/api", "//"} {
		f.Add("GET", path, "watch=1&fieldSelector=metadata.name=x")
	}
	f.Fuzz(func(t *testing.T, method, path, query string) {
		req := (&http.Request{Method: method}).WithContext(t.Context())
		req.URL = requestURL(path, query)
		info := apirequest.Parse(req)
		if info.IsWrite() && !info.IsResource() {
			t.Errorf("Parse(%s %s) is a write of no resource: %+v", method, path, info)
		}
		if info.Path != path {
			t.Errorf("Parse(%s %s).Path = %q", method, path, info.Path)
		}
	})
}
