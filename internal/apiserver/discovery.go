package apiserver

import (
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"

	"github.com/sheetanchor/sheetanchor/internal/apirequest"
)

var objectVerbs = metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

// discover answers what names no resource: the lists of groups, versions and resources, and the health checks.
func (s *Server) discover(req *http.Request, info apirequest.Info) *http.Response {
	if req.Method != http.MethodGet {
		return noSuchPath(req)
	}
	switch path := strings.TrimSuffix(info.Path, "/"); path {
	case "/healthz", "/livez", "/readyz":
		resp := answer(req, http.StatusOK, []byte("ok"))
		resp.Header.Set("Content-Type", "text/plain; charset=utf-8")
		return resp
	case "/version":
		return answer(req, http.StatusOK, encode(version.Info{Major: "1", Minor: "35", GitVersion: "v1.35.0", Platform: "linux/amd64"}))
	case "/api":
		return answer(req, http.StatusOK, encode(metav1.APIVersions{
			TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"},
		}))
	case "/apis":
		return answer(req, http.StatusOK, encode(metav1.APIGroupList{
			TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: s.groups(),
		}))
	}
	if info.Version != "" {
		if list := s.resources(info.Group, info.Version); list != nil {
			return answer(req, http.StatusOK, encode(list))
		}
	}
	if name, ok := strings.CutPrefix(info.Path, "/apis/"); ok {
		for _, group := range s.groups() {
			if group.Name == strings.TrimSuffix(name, "/") {
				group.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
				return answer(req, http.StatusOK, encode(group))
			}
		}
	}
	return noSuchPath(req)
}

// groups lists the named groups, sorted, each with its versions in the order they are preferred.
func (s *Server) groups() []metav1.APIGroup {
	groups := []metav1.APIGroup{}
	for _, t := range s.sorted() {
		if t.res.Group == "" {
			continue
		}
		if n := len(groups); n == 0 || groups[n-1].Name != t.res.Group {
			groups = append(groups, metav1.APIGroup{Name: t.res.Group})
		}
		group := &groups[len(groups)-1]
		for _, v := range t.res.Versions {
			entry := metav1.GroupVersionForDiscovery{GroupVersion: t.res.Group + "/" + v, Version: v}
			if !slices.Contains(group.Versions, entry) {
				group.Versions = append(group.Versions, entry)
			}
		}
		group.PreferredVersion = group.Versions[0]
	}
	return groups
}

// resources lists what a group version serves, nil if it is not served.
func (s *Server) resources(group, v string) *metav1.APIResourceList {
	list := &metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: strings.TrimPrefix(group+"/"+v, "/"),
	}
	for _, t := range s.sorted() {
		if t.res.Group != group || !t.res.serves(v) {
			continue
		}
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: t.res.Plural, SingularName: t.res.singular(), Kind: t.res.Kind, Namespaced: t.res.Namespaced,
			ShortNames: t.res.Short, Verbs: objectVerbs,
		})
		if t.res.Status {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: t.res.Plural + "/status", Kind: t.res.Kind, Namespaced: t.res.Namespaced,
				Verbs: metav1.Verbs{"get", "patch", "update"},
			})
		}
	}
	if len(list.APIResources) == 0 {
		return nil
	}
	return list
}
