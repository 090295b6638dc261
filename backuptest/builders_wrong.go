package backuptest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// misbuilt stands for what a builder cannot make. To store it is an error.
type misbuilt struct {
	metav1.TypeMeta

	err error
}

// DeepCopyObject implements runtime.Object.
func (m *misbuilt) DeepCopyObject() runtime.Object {
	return &misbuilt{TypeMeta: m.TypeMeta, err: m.err}
}

// built is what objects returns or, if something is wrong, an object that says what.
func built(what, namespace, name string, objects func() []runtime.Object, wrong ...error) []runtime.Object {
	if err := errors.Join(wrong...); err != nil {
		return []runtime.Object{&misbuilt{err: fmt.Errorf("%s %s: %w", what, strings.TrimPrefix(namespace+"/"+name, "/"), err)}}
	}
	return objects()
}

// quantityOf is zero for what cannot be read.
func quantityOf(text string) resource.Quantity {
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return resource.Quantity{}
	}
	return quantity
}

func wrongSize(text string) error {
	quantity, err := resource.ParseQuantity(orString(text, "1Gi"))
	if err != nil {
		return fmt.Errorf("field Size: %q: %w", text, err)
	}
	if quantity.Sign() <= 0 {
		return fmt.Errorf("field Size: %q is not positive", text)
	}
	return nil
}

func wrongPolicy(policy string) error {
	if policy == "" || policy == policyDelete || policy == "Retain" {
		return nil
	}
	return fmt.Errorf("field Policy: %q is neither %s nor %s", policy, policyDelete, "Retain")
}

func (c Claim) wrong() error {
	var errs []error
	if c.Unbound && c.Lost || c.Unbound && c.Released || c.Lost && c.Released {
		errs = append(errs, errors.New("fields Unbound, Lost, Released: a claim is one of these at most"))
	}
	return errors.Join(append(errs, wrongSize(c.Size))...)
}

func (p Pod) wrong() error {
	containers := p.Containers
	if len(containers) == 0 {
		containers = []string{defaultContainer}
	}
	for _, name := range p.NotRunning {
		if !slices.Contains(containers, name) {
			return fmt.Errorf("field NotRunning: there is no container %q", name)
		}
	}
	return nil
}

func (s Snapshot) wrong() error {
	var errs []error
	if s.Claim == "" && !s.Static {
		errs = append(errs, errors.New("field Claim: it is empty"))
	}
	if s.State > SnapshotCut {
		errs = append(errs, fmt.Errorf("field State: %d is unknown", s.State))
	}
	if s.Leftover && s.State == SnapshotCreated {
		errs = append(errs, errors.New("field Leftover: there is no content in state SnapshotCreated"))
	}
	return errors.Join(append(errs, wrongSize(s.Size), wrongPolicy(s.Policy))...)
}

func (s StatefulSet) wrong() error {
	return errors.Join(negative("Replicas", s.Replicas), s.Claim.wrong(), s.Pod.wrong())
}
