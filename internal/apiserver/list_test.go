package apiserver_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// B1: no selector, continue token, version or limit is more than a refusal, and what is listed page by page is what is listed
// at once.
func FuzzList(f *testing.F) {
	const start = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYXBwL29uZSJ9"
	f.Add("a in (b,c),!d", "metadata.name!=one", "", "", "", "1")
	f.Add("", "metadata.namespace=app", start, "", "", "1")
	f.Add("", "", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6OSwic3RhcnQiOiIuLi9hIn0", "0", "", "2")
	f.Add("", "", "", "3", "Exact", "")
	f.Add("x notin (", "a=b", "e30", "-1", "NotOlderThan", "-1")
	f.Fuzz(func(t *testing.T, labels, fields, token, version, match, limit string) {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t)
			query := url.Values{"labelSelector": {labels}, "fieldSelector": {fields}, "continue": {token}, "resourceVersion": {version}, "resourceVersionMatch": {match}}
			read := func(limit string) (int, metav1.PartialObjectMetadataList) {
				query.Set("limit", limit)
				resp, raw := send(t, s, http.MethodGet, "/api/v1/configmaps?"+query.Encode(), "", "")
				var list metav1.PartialObjectMetadataList
				if err := json.Unmarshal(raw, &list); err != nil {
					t.Fatalf("%s: %q: %v", resp.Status, raw, err)
				}
				if resp.StatusCode >= http.StatusInternalServerError && resp.StatusCode != http.StatusGatewayTimeout {
					t.Fatalf("%v = %s: %s", query, resp.Status, raw)
				}
				return resp.StatusCode, list
			}
			code, page := read(limit)
			if code != http.StatusOK {
				return
			}
			var got []string
			for n := 0; ; n++ {
				for i := range page.Items {
					got = append(got, page.Items[i].Name)
				}
				if page.Continue == "" {
					break
				}
				query.Set("continue", page.Continue)
				query.Del("resourceVersion")
				query.Del("resourceVersionMatch")
				if code, page = read("1"); code != http.StatusOK || n > 10 {
					t.Fatalf("page %d = %d", n, code)
				}
			}
			query.Set("continue", token)
			query.Set("resourceVersion", version)
			query.Set("resourceVersionMatch", match)
			_, whole := read("0")
			var want []string
			for i := range whole.Items {
				want = append(want, whole.Items[i].Name)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%v: page by page %q, at once %q", query, got, want)
			}
		})
	})
}
