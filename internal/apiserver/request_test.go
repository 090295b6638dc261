package apiserver_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sheetanchor/sheetanchor/internal/apiserver"
)

const stored = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one","namespace":"app","finalizers":["a.b/c"]},"data":{"key":"value","list":"x"}}`

func newServer(tb testing.TB) *apiserver.Server {
	tb.Helper()
	s, err := apiserver.New(apiserver.Options{Resources: append(apiserver.Builtin(), apiserver.Snapshots()...)})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	for _, text := range []string{
		stored,
		`{"apiVersion":"snapshot.storage.k8s.io/v1","kind":"VolumeSnapshot","metadata":{"name":"one","namespace":"app"},"spec":{"list":[1,2,{"a":"b"}],"a/b":{"c~d":1},"null":null}}`,
	} {
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON([]byte(text)); err != nil {
			tb.Fatal(err)
		}
		if err := s.Insert(false, u); err != nil {
			tb.Fatal(err)
		}
	}
	return s
}

func send(tb testing.TB, s *apiserver.Server, method, path, media, body string) (*http.Response, []byte) {
	tb.Helper()
	target, err := url.Parse("http://server" + path)
	if err != nil {
		tb.Skip("not a URL")
	}
	req := (&http.Request{Method: method, URL: target, Header: http.Header{"Content-Type": {media}}, Body: io.NopCloser(strings.NewReader(body))}).WithContext(tb.Context())
	resp, err := s.RoundTrip(req)
	if err != nil {
		tb.Fatalf("RoundTrip = %v, want an answer", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if _, ok := resp.Body.(*apiserver.Stream); ok {
		return resp, nil
	}
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return resp, raw
}

// B1: no request, however malformed, is more than an error answer, and none breaks what is stored.
func FuzzRequest(f *testing.F) {
	const one, snap = "/api/v1/namespaces/app/configmaps/one", "/apis/snapshot.storage.k8s.io/v1/namespaces/app/volumesnapshots/one"
	f.Add("PATCH", one, "application/merge-patch+json", `{"data":{"key":null},"metadata":{"labels":{"a":"b"}}}`)
	f.Add("PATCH", one, "application/strategic-merge-patch+json", `{"metadata":{"$patch":"replace","finalizers":null}}`)
	f.Add("PATCH", one, "application/json-patch+json", `[{"op":"move","from":"/data/key","path":"/data/other"}]`)
	f.Add("PATCH", snap, "application/json-patch+json", `[{"op":"add","path":"/spec/list/-","value":[]},{"op":"copy","from":"/spec/list/2","path":"/spec/list/0"}]`)
	f.Add("PATCH", snap+"/status", "application/merge-patch+json", `{"status":[],"metadata":1}`)
	f.Add("PUT", one, "application/json", stored)
	f.Add("PUT", snap, "", `{"metadata":{"name":"one","resourceVersion":"1","deletionTimestamp":"x"}}`)
	f.Add("POST", "/api/v1/namespaces/app/pods?dryRun=All&fieldValidation=Strict", "application/yaml", "metadata: {name: x}\nspec: [")
	f.Add("POST", "/api/v1/namespaces", "application/vnd.kubernetes.protobuf", "k8s\x00\x0a\x01")
	f.Add("DELETE", one, "application/json", `{"preconditions":{"uid":"x"}}`)
	f.Add("DELETE", "/api/v1/namespaces/app", "", "")
	f.Add("GET", "/api/v1/configmaps?limit=1&continue=eyJ2IjoxfQ&resourceVersion=0&fieldSelector=a=b", "", "")
	f.Add("GET", "/api/v1/configmaps?watch=1&sendInitialEvents=maybe&timeoutSeconds=-1", "", "")
	f.Add("GET", "/apis/apps/v1/", "", "")
	f.Fuzz(func(t *testing.T, method, path, media, body string) {
		synctest.Test(t, func(t *testing.T) { // a list that asks for a version to come waits for seconds
			s := newServer(t)
			resp, raw := send(t, s, method, path, media, body)
			if resp.StatusCode >= http.StatusInternalServerError && resp.StatusCode != http.StatusGatewayTimeout && !strings.Contains(string(raw), "resourceVersion should not be set") {
				t.Errorf("%s %s = %s: %s", method, path, resp.Status, raw)
			}
			if raw != nil && resp.Header.Get("Content-Type") == "application/json" && !json.Valid(raw) {
				t.Errorf("%s %s = %q, which is not JSON", method, path, raw)
			}
			for _, list := range []string{"/api/v1/configmaps", "/apis/snapshot.storage.k8s.io/v1/volumesnapshots", "/api/v1/namespaces"} {
				if resp, raw := send(t, s, http.MethodGet, list, "", ""); resp.StatusCode != http.StatusOK || !json.Valid(raw) {
					t.Errorf("after %s %s: GET %s = %s: %q", method, path, list, resp.Status, raw)
				}
			}
		})
	})
}

// B1: JSON patches follow RFC 6902.
func TestJSONPatch(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		patch string
		code  int
		want  string // the spec afterwards
	}{
		"add a member":            {`[{"op":"add","path":"/spec/new","value":{"x":1}}]`, 200, `{"a/b":{"c~d":1},"list":[1,2,{"a":"b"}],"new":{"x":1},"null":null}`},
		"add before an item":      {`[{"op":"add","path":"/spec/list/1","value":9}]`, 200, `{"a/b":{"c~d":1},"list":[1,9,2,{"a":"b"}],"null":null}`},
		"add at the end":          {`[{"op":"add","path":"/spec/list/-","value":9},{"op":"add","path":"/spec/list/4","value":8}]`, 200, `{"a/b":{"c~d":1},"list":[1,2,{"a":"b"},9,8],"null":null}`},
		"add over a member":       {`[{"op":"add","path":"/spec/list","value":[]}]`, 200, `{"a/b":{"c~d":1},"list":[],"null":null}`},
		"escaped names":           {`[{"op":"replace","path":"/spec/a~1b/c~0d","value":2}]`, 200, `{"a/b":{"c~d":2},"list":[1,2,{"a":"b"}],"null":null}`},
		"remove an item":          {`[{"op":"remove","path":"/spec/list/0"}]`, 200, `{"a/b":{"c~d":1},"list":[2,{"a":"b"}],"null":null}`},
		"inside an item":          {`[{"op":"replace","path":"/spec/list/2/a","value":"c"}]`, 200, `{"a/b":{"c~d":1},"list":[1,2,{"a":"c"}],"null":null}`},
		"move":                    {`[{"op":"move","from":"/spec/list/2","path":"/spec/item"}]`, 200, `{"a/b":{"c~d":1},"item":{"a":"b"},"list":[1,2],"null":null}`},
		"copy shares nothing":     {`[{"op":"copy","from":"/spec/list/2","path":"/spec/item"},{"op":"add","path":"/spec/item/z","value":1}]`, 200, `{"a/b":{"c~d":1},"item":{"a":"b","z":1},"list":[1,2,{"a":"b"}],"null":null}`},
		"test passes":             {`[{"op":"test","path":"/spec/list","value":[1,2,{"a":"b"}]},{"op":"test","path":"/spec/null","value":null}]`, 200, `{"a/b":{"c~d":1},"list":[1,2,{"a":"b"}],"null":null}`},
		"test of nothing":         {`[{"op":"test","path":"/spec/none","value":1}]`, 422, ""},
		"replace of nothing":      {`[{"op":"replace","path":"/spec/none","value":1}]`, 422, ""},
		"remove of nothing":       {`[{"op":"remove","path":"/spec/none"}]`, 422, ""},
		"move of nothing":         {`[{"op":"move","from":"/spec/none","path":"/spec/x"}]`, 422, ""},
		"add below nothing":       {`[{"op":"add","path":"/spec/none/x","value":1}]`, 422, ""},
		"add below a number":      {`[{"op":"add","path":"/spec/list/0/x","value":1}]`, 422, ""},
		"index too large":         {`[{"op":"add","path":"/spec/list/4","value":1}]`, 422, ""},
		"index of no item":        {`[{"op":"replace","path":"/spec/list/3","value":1}]`, 422, ""},
		"index not a number":      {`[{"op":"add","path":"/spec/list/x","value":1}]`, 422, ""},
		"negative index":          {`[{"op":"remove","path":"/spec/list/-1"}]`, 422, ""},
		"second operation fails":  {`[{"op":"add","path":"/spec/new","value":1},{"op":"remove","path":"/spec/none"}]`, 422, ""},
		"an unknown op":           {`[{"op":"mangle","path":"/spec"}]`, 400, ""},
		"no value":                {`[{"op":"add","path":"/spec/x"}]`, 400, ""},
		"no path":                 {`[{"op":"remove"}]`, 400, ""},
		"the whole object":        {`[{"op":"replace","path":"","value":{}}]`, 400, ""},
		"no list":                 {`{"op":"remove","path":"/spec"}`, 400, ""},
		"not JSON":                {`[`, 400, ""},
		"metadata becomes a list": {`[{"op":"replace","path":"/metadata","value":[]}]`, 422, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			const path = "/apis/snapshot.storage.k8s.io/v1/namespaces/app/volumesnapshots/one"
			_, before := send(t, s, http.MethodGet, path, "", "")
			resp, raw := send(t, s, http.MethodPatch, path, "application/json-patch+json", tc.patch)
			if resp.StatusCode != tc.code {
				t.Fatalf("patch = %s: %s, want %d", resp.Status, raw, tc.code)
			}
			_, after := send(t, s, http.MethodGet, path, "", "")
			if tc.code != http.StatusOK {
				if string(before) != string(after) {
					t.Errorf("a refused patch changed the object from %s to %s", before, after)
				}
				return
			}
			var got struct{ Spec json.RawMessage }
			if err := json.Unmarshal(after, &got); err != nil || string(got.Spec) != tc.want {
				t.Errorf("spec = %s, %v, want %s", got.Spec, err, tc.want)
			}
		})
	}
}
