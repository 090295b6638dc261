package apiserver

import (
	"net/http"
	"runtime"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"

	"github.com/sheetanchor/sheetanchor/internal/apirequest"
)

// discover answers what names no resource: the lists of groups, versions and resources, and the health checks.
func (s *Server) discover(req *http.Request, info apirequest.Info) *http.Response {
	if req.Method != http.MethodGet {
		return noSuchPath(req)
	}
	path := strings.TrimSuffix(info.Path, "/")
	switch path {
	case "/healthz", "/livez", "/readyz":
		resp := answer(req, http.StatusOK, []byte("ok"))
		resp.Header.Set("Content-Type", "text/plain; charset=utf-8")
		return resp
	case "/version":
		return answer(req, http.StatusOK, encode(version.Info{
			Major: "1", Minor: "35", GitVersion: "v1.35.0", GitTreeState: "clean", GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: "linux/amd64",
		}))
	}
	f, err := negotiate(req, ofDiscovery)
	if err != nil {
		return failure(req, err)
	}
	served := s.served()
	switch path {
	case "/api", "/apis":
		if f.as != "" {
			return answerAs(req, f, encode(served.aggregated(path == "/api")))
		}
	}
	switch path {
	case "/api":
		return answer(req, http.StatusOK, encode(metav1.APIVersions{
			TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"},
		}))
	case "/apis":
		return answer(req, http.StatusOK, encode(metav1.APIGroupList{
			TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: served.groups(),
		}))
	}
	if info.Version != "" {
		if list := served.resources(info.Group, info.Version); list != nil {
			return answer(req, http.StatusOK, encode(list))
		}
	}
	if name, ok := strings.CutPrefix(path, "/apis/"); ok {
		for _, group := range served.groups() {
			if group.Name == name {
				group.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
				return answer(req, http.StatusOK, encode(group))
			}
		}
	}
	return noSuchPath(req)
}

// catalog is what a server serves at one time, sorted by group and plural name.
type catalog []*Resource

func (s *Server) served() catalog {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list catalog
	for _, t := range s.sorted() {
		list = append(list, t.res)
	}
	return list
}

// groups lists the named groups, each with its versions in the order they are preferred.
func (list catalog) groups() []metav1.APIGroup {
	groups := []metav1.APIGroup{}
	for _, res := range list {
		if res.Group == "" {
			continue
		}
		if n := len(groups); n == 0 || groups[n-1].Name != res.Group {
			groups = append(groups, metav1.APIGroup{Name: res.Group})
		}
		group := &groups[len(groups)-1]
		for _, v := range res.Versions {
			entry := metav1.GroupVersionForDiscovery{GroupVersion: res.Group + "/" + v, Version: v}
			if !slices.Contains(group.Versions, entry) {
				group.Versions = append(group.Versions, entry)
			}
		}
		group.PreferredVersion = group.Versions[0]
	}
	return groups
}

// resources lists what a group version serves, nil if it is not served.
func (list catalog) resources(group, v string) *metav1.APIResourceList {
	out := &metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: strings.TrimPrefix(group+"/"+v, "/"),
	}
	for _, res := range list {
		if res.Group != group || !res.serves(v) {
			continue
		}
		out.APIResources = append(out.APIResources, metav1.APIResource{
			Name: res.Plural, SingularName: res.singular(), Kind: res.Kind, Namespaced: res.Namespaced,
			ShortNames: res.Short, Categories: res.Categories, Verbs: res.verbs(),
		})
		for _, sub := range res.subresources() {
			out.APIResources = append(out.APIResources, metav1.APIResource{
				Name: res.Plural + "/" + sub.name, Kind: sub.kind, Namespaced: res.Namespaced, Verbs: sub.verbs,
			})
		}
	}
	if len(out.APIResources) == 0 {
		return nil
	}
	return out
}
