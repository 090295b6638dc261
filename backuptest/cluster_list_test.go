package backuptest_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

// B1, all-5: when the state of the first page is forgotten, the answer 410 carries a token that goes on with what is there now.
func TestInconsistentContinue(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{Objects: many(6)}, func(c clients) {
		t := c.t
		maps := c.core.CoreV1().ConfigMaps("app")
		first, err := maps.List(t.Context(), metav1.ListOptions{Limit: 2})
		if err != nil {
			t.Fatal(err)
		}
		created(t, c, "m-00002-late")
		c.cluster.Compact()
		_, err = maps.List(t.Context(), metav1.ListOptions{Limit: 2, Continue: first.Continue})
		status, ok := err.(apierrors.APIStatus)
		if !apierrors.IsResourceExpired(err) || !ok || status.Status().Continue == "" {
			t.Fatalf("continue = %v, want 410 with a token", err)
		}
		got := names(first)
		opts := metav1.ListOptions{Limit: 2, Continue: status.Status().Continue}
		for opts.Continue != "" {
			next, err := maps.List(t.Context(), opts)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, names(next)...)
			opts.Continue = next.Continue
		}
		want := []string{"m-00000", "m-00001", "m-00002", "m-00002-late", "m-00003", "m-00004", "m-00005"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("names -want +got:\n%s", diff)
		}
	})
}

// B1: what a resourceVersion means to a list depends on how it is to match.
func TestListVersions(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{Objects: many(3)}, func(c clients) {
		t := c.t
		maps := c.core.CoreV1().ConfigMaps("app")
		old, err := maps.List(t.Context(), metav1.ListOptions{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		then := old.ResourceVersion
		created(t, c, "new")
		tests := map[string]struct {
			reason string
			opts   metav1.ListOptions
			want   int // items, or 0 for an error
			is     func(error) bool
			says   string
		}{
			"latest":            {"no version is the latest one", metav1.ListOptions{}, 4, nil, ""},
			"any":               {"version 0 is any, and a limit does not hold for it", metav1.ListOptions{ResourceVersion: "0", Limit: 2}, 4, nil, ""},
			"not older":         {"the latest is not older", metav1.ListOptions{ResourceVersion: then, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}, 4, nil, ""},
			"not older unasked": {"without a match or a limit it is not older", metav1.ListOptions{ResourceVersion: then}, 4, nil, ""},
			"exact":             {"that very state", metav1.ListOptions{ResourceVersion: then, ResourceVersionMatch: metav1.ResourceVersionMatchExact}, 3, nil, ""},
			"exact unasked":     {"a limit makes it exact", metav1.ListOptions{ResourceVersion: then, Limit: 10}, 3, nil, ""},
			"exact 0":           {"0 is no state", metav1.ListOptions{ResourceVersion: "0", ResourceVersionMatch: metav1.ResourceVersionMatchExact}, 0, apierrors.IsInvalid, "resourceVersionMatch"},
			"match of nothing":  {"a match needs a version", metav1.ListOptions{ResourceVersionMatch: metav1.ResourceVersionMatchExact}, 0, apierrors.IsInvalid, "unless resourceVersion is provided"},
			"unknown match":     {"there are two", metav1.ListOptions{ResourceVersion: "1", ResourceVersionMatch: "Roughly"}, 0, apierrors.IsInvalid, "Roughly"},
			"no number":         {"versions are numbers here", metav1.ListOptions{ResourceVersion: "x"}, 0, apierrors.IsBadRequest, "x"},
			"with continue":     {"a token has its own version", metav1.ListOptions{ResourceVersion: then, Continue: old.Continue}, 0, apierrors.IsBadRequest, "not allowed when using continue"},
			"continue":          {"of the state it was made in", metav1.ListOptions{Continue: old.Continue}, 2, nil, ""},
			"initial events":    {"are for watches", metav1.ListOptions{SendInitialEvents: new(true)}, 0, apierrors.IsInvalid, "forbidden for list"},
		}
		for name, tc := range tests {
			list, err := maps.List(t.Context(), tc.opts)
			switch {
			case tc.is == nil && (err != nil || len(list.Items) != tc.want):
				t.Errorf("%s: %s: %d items, %v, want %d", name, tc.reason, len(list.Items), err, tc.want)
			case tc.is != nil && (!tc.is(err) || !strings.Contains(err.Error(), tc.says)):
				t.Errorf("%s: %s: %v, want an error with %q", name, tc.reason, err, tc.says)
			}
		}
		c.cluster.Compact()
		_, err = maps.List(t.Context(), metav1.ListOptions{ResourceVersion: then, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
		if !apierrors.IsResourceExpired(err) || !strings.Contains(err.Error(), "too old") {
			t.Errorf("a forgotten state = %v, want 410", err)
		}
		for _, w := range []metav1.ListOptions{
			{ResourceVersion: "1", ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan},
			{SendInitialEvents: new(true)},
		} {
			if _, err := maps.Watch(t.Context(), w); !apierrors.IsInvalid(err) {
				t.Errorf("watch with %+v = %v, want Invalid", w, err)
			}
		}
	})
}

// B1: field selectors may use what the real server's do, in its words otherwise.
func TestFieldSelectors(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		if err := c.cluster.Add(
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "open"}},
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "closed"}, Spec: corev1.NodeSpec{Unschedulable: true}},
			&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: "old"}, Source: corev1.EventSource{Component: "kubelet"}},
			&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: "new"}, ReportingController: "kubelet"},
		); err != nil {
			t.Fatal(err)
		}
		tests := map[string]struct {
			list func(metav1.ListOptions) (int, error)
			want int
			says string
		}{
			"spec.unschedulable=false":          {listNodes(t, c), 1, ""},
			"spec.unschedulable!=false":         {listNodes(t, c), 1, ""},
			"spec.podCIDR=x":                    {listNodes(t, c), 0, "field label not supported: spec.podCIDR"},
			"source=kubelet":                    {listEvents(t, c), 2, ""},
			"source=kubelet,metadata.name!=old": {listEvents(t, c), 1, ""},
			"data.key=value":                    {listMaps(t, c), 0, `"data.key" is not a known field selector: only "metadata.name", "metadata.namespace"`},
			"metadata.name":                     {listMaps(t, c), 0, "invalid selector"},
		}
		for selector, tc := range tests {
			n, err := tc.list(metav1.ListOptions{FieldSelector: selector})
			if tc.says == "" && (err != nil || n != tc.want) || tc.says != "" && (!apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("%s: %d, %v, want %d, %q", selector, n, err, tc.want, tc.says)
			}
		}
	})
}

func listNodes(t *testing.T, c clients) func(metav1.ListOptions) (int, error) {
	t.Helper()
	return func(opts metav1.ListOptions) (int, error) {
		list, err := c.core.CoreV1().Nodes().List(t.Context(), opts)
		return len(list.Items), err
	}
}

func listEvents(t *testing.T, c clients) func(metav1.ListOptions) (int, error) {
	t.Helper()
	return func(opts metav1.ListOptions) (int, error) {
		list, err := c.core.CoreV1().Events("app").List(t.Context(), opts)
		return len(list.Items), err
	}
}

func listMaps(t *testing.T, c clients) func(metav1.ListOptions) (int, error) {
	t.Helper()
	return func(opts metav1.ListOptions) (int, error) {
		list, err := c.core.CoreV1().ConfigMaps("app").List(t.Context(), opts)
		return len(list.Items), err
	}
}

// B1: cluster-wide kinds are paged too, in all their order.
func TestPagingOfClusterWideKinds(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		want := []string{"a", "a-b", "a.b", "b"}
		for _, name := range want {
			if err := c.cluster.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		opts := metav1.ListOptions{Limit: 1}
		for {
			page, err := c.core.CoreV1().Nodes().List(t.Context(), opts)
			if err != nil {
				t.Fatal(err)
			}
			for i := range page.Items {
				got = append(got, page.Items[i].Name)
			}
			if opts.Continue = page.Continue; opts.Continue == "" {
				break
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("nodes -want +got:\n%s", diff)
		}
	})
}
