package apiserver

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// B1: the history keeps past states as JSON alone, and gives them back as they were.
func TestPastStatesKeepNoTree(t *testing.T) {
	t.Parallel()
	s := &Server{}
	table := newTable(&Resource{Kind: "Thing"})
	thing := func(size any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Thing", "metadata": map[string]any{"namespace": "a", "name": "b"}, "spec": map[string]any{"size": size},
		}}
	}
	first, err := s.put(table, nil, thing(int64(1)))
	if err != nil {
		t.Fatal(err)
	}
	before := first.tree()
	second, err := s.put(table, first, thing(1.5))
	if err != nil {
		t.Fatal(err)
	}
	if first.kept.Load() != nil || second.kept.Load() == nil {
		t.Error("the past state has its tree, or the present one has not")
	}
	if diff := cmp.Diff(before.Object, first.tree().Object); diff != "" {
		t.Errorf("the past state (-before +after):\n%s", diff)
	}
	if first.namespace() != "a" || first.name() != "b" {
		t.Errorf("the past state is of %s/%s, want a/b", first.namespace(), first.name())
	}
}
