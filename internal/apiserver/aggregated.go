package apiserver

import (
	"net/http"
	"slices"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ofDiscovery allows what discovery can be shown as: plain lists, or everything at once.
func ofDiscovery(f format) bool {
	return f.as == "" || f.as == "APIGroupDiscoveryList" && f.group == apidiscoveryv2.GroupName && f.version == "v2"
}

// answerAs answers in a form that the content type names, as clients of aggregated discovery want it.
func answerAs(req *http.Request, f format, body []byte) *http.Response {
	resp := answer(req, http.StatusOK, body)
	resp.Header.Set("Content-Type", mediaJSON+";g="+f.group+";v="+f.version+";as="+f.as)
	return resp
}

// aggregated lists the core group or all others with their versions and resources.
func (list catalog) aggregated(core bool) *apidiscoveryv2.APIGroupDiscoveryList {
	out := &apidiscoveryv2.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: apidiscoveryv2.SchemeGroupVersion.String()},
		Items:    []apidiscoveryv2.APIGroupDiscovery{},
	}
	for _, res := range list {
		if (res.Group == "") != core {
			continue
		}
		if n := len(out.Items); n == 0 || out.Items[n-1].Name != res.Group {
			out.Items = append(out.Items, apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: res.Group}})
		}
		group := &out.Items[len(out.Items)-1]
		for _, v := range res.Versions {
			i := slices.IndexFunc(group.Versions, func(known apidiscoveryv2.APIVersionDiscovery) bool { return known.Version == v })
			if i < 0 {
				i = len(group.Versions)
				group.Versions = append(group.Versions, apidiscoveryv2.APIVersionDiscovery{Version: v, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent})
			}
			group.Versions[i].Resources = append(group.Versions[i].Resources, res.discovery(v))
		}
	}
	return out
}

func (r *Resource) discovery(v string) apidiscoveryv2.APIResourceDiscovery {
	out := apidiscoveryv2.APIResourceDiscovery{
		Resource: r.Plural, SingularResource: r.singular(), Scope: apidiscoveryv2.ScopeCluster, Verbs: r.verbs(),
		ShortNames: r.Short, Categories: r.Categories,
		ResponseKind: &metav1.GroupVersionKind{Group: r.Group, Version: v, Kind: r.Kind},
	}
	if r.Namespaced {
		out.Scope = apidiscoveryv2.ScopeNamespace
	}
	for _, sub := range r.subresources() {
		out.Subresources = append(out.Subresources, apidiscoveryv2.APISubresourceDiscovery{
			Subresource: sub.name, Verbs: sub.verbs, ResponseKind: &metav1.GroupVersionKind{Group: r.Group, Version: v, Kind: sub.kind},
		})
	}
	return out
}
