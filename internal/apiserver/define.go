package apiserver

import (
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// cleanup is the finalizer that holds a definition until the last object of its kind has gone.
const cleanup = "customresourcecleanup.apiextensions.k8s.io"

// errBuiltin is the error for a definition of what the server has without one.
var errBuiltin = errors.New("the resource is built in")

// establish makes what a CustomResourceDefinition, which is new or changed, defines a resource that is served, and says so
// in its status. It needs the lock, or a server that nobody shares yet.
func (s *Server) establish(u *unstructured.Unstructured) error {
	res, faults := define(u)
	if len(faults) > 0 {
		return faults.ToAggregate()
	}
	d, err := definitionOf(u)
	if err != nil {
		return err
	}
	t := s.table(res.Group, res.Plural)
	switch {
	case t == nil:
		t = newTable(res)
		t.log = newHistory(s.rv)
		s.tables[res.groupResource()] = t
	case t.res.builtin:
		return apierrors.NewForbidden(t.res.groupResource(), u.GetName(), errBuiltin)
	default:
		t.res = res
	}
	t.defined = true
	return d.establish(u)
}

// drain begins the end of a resource whose definition is being deleted: all its objects are. It needs the lock.
func (s *Server) drain(definition *object) error {
	d, err := definitionOf(definition.tree())
	if err != nil {
		return err
	}
	t := s.table(d.Group, d.Names.Plural)
	if t == nil || !t.defined {
		return s.undefine(d.Names.Plural + "." + d.Group)
	}
	t.ending = true
	background := metav1.DeletePropagationBackground
	for _, o := range cloned(t.objects) {
		if _, err := s.end(t, o, &metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
			return err
		}
		if err := s.settle(t.res, o.tree().GetNamespace()); err != nil {
			return err
		}
	}
	return s.drained(t)
}

// establishStored serves what a definition defines that is stored as it is: if it can be followed, does not say that it is
// not established, and nothing else has made the kind a served one. It needs the lock, or a server that nobody shares yet.
func (s *Server) establishStored(u *unstructured.Unstructured) error {
	res, faults := define(u)
	if len(faults) > 0 || s.table(res.Group, res.Plural) != nil || !established(u) {
		return nil
	}
	return s.establish(u)
}

// established reports whether a definition's status says so, or nothing.
func established(u *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, condition := range conditions {
		if members, ok := condition.(map[string]any); ok && members["type"] == "Established" {
			return members["status"] == "True"
		}
	}
	return true
}

// resume marks the resource of a definition that was being deleted when the state was kept.
func (s *Server) resume(definition *object) {
	d, err := definitionOf(definition.tree())
	if err != nil {
		return
	}
	if t := s.table(d.Group, d.Names.Plural); t != nil && t.defined {
		t.ending = true
	}
}

// drained takes a resource away whose definition is being deleted, once it has no objects. It needs the lock.
func (s *Server) drained(t *table) error {
	if !t.ending || len(t.objects) > 0 || s.table(t.res.Group, t.res.Plural) != t {
		return nil
	}
	delete(s.tables, t.res.groupResource())
	close(t.ended)
	t.ended = make(chan struct{})
	return s.undefine(t.res.Plural + "." + t.res.Group)
}

// undefine takes the cleanup finalizer from a definition, which is its end unless another holds it.
func (s *Server) undefine(name string) error {
	t := s.table("apiextensions.k8s.io", "customresourcedefinitions")
	o := t.get("", name)
	if o == nil {
		return nil
	}
	u := o.tree().DeepCopy()
	u.SetFinalizers(slices.DeleteFunc(u.GetFinalizers(), func(f string) bool { return f == cleanup }))
	var err error
	if len(u.GetFinalizers()) == 0 {
		_, err = s.remove(t, o, u)
	} else {
		_, err = s.put(t, o, u)
	}
	return err
}

// doomed is a definition with what its deletion begins with.
func doomed(u *unstructured.Unstructured) *unstructured.Unstructured {
	u = u.DeepCopy()
	if !slices.Contains(u.GetFinalizers(), cleanup) {
		u.SetFinalizers(append(u.GetFinalizers(), cleanup))
	}
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	conditions = append(conditions, map[string]any{
		"type": "Terminating", "status": "True", "reason": "InstanceDeletionPending", "lastTransitionTime": now().UTC().Format("2006-01-02T15:04:05Z"),
		"message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
	})
	status, _ := u.Object["status"].(map[string]any)
	if status == nil {
		status = map[string]any{}
		u.Object["status"] = status
	}
	status["conditions"] = conditions
	return u
}

// errEnding is the error for a new object of a kind that is being taken away.
var errEnding = errors.New("create not allowed while custom resource definition is terminating")
