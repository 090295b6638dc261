package phasekube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sheetanchor/sheetanchor/phase"
)

const (
	preflightFor     = 30 * time.Second
	preflightPause   = time.Second
	preflightAttempt = 10 * time.Second
	// confirmAfter: a restarted API server answers Forbidden and NotFound until its caches are filled.
	confirmAfter = 2 * time.Second
)

// Preflight looks whether the server will take what an Applier with the machine writes here, before anything is written:
// it reads the CustomResourceDefinition of the resource, and tries to read the object, which need not exist, so that any
// name does. Call it when a program starts, log the report, stop at [Report.Err], and make objects with [Report.Fields].
// Kinds that are built into the server have no definition, and only the read is tried. It writes nothing.
//
// The phases that must be allowed are those to which a transition of the machine leads. Without permission to read
// definitions the report says that they were not checked, which is no error.
//
// # Errors
//
// A nil machine and faulty options are phase.ErrInvalid. Transient errors are tried again until ctx ends or 30 seconds have
// passed, and refusals are believed when they are repeated two seconds later; the last error is wrapped. What the report
// finds is no error of Preflight.
func (o *Object[P]) Preflight(ctx context.Context, m *phase.Machine[P]) (Report, error) {
	switch {
	case o.fault != nil:
		return Report{}, fmt.Errorf("preflight %s: %w", o.what, o.fault)
	case m == nil:
		return Report{}, fmt.Errorf("preflight %s: %w machine: it is nil", o.what, phase.ErrInvalid)
	}
	report := Report{Resource: o.gvr.GroupResource().String() + "/" + o.gvr.Version, fields: o.fields}
	ctx, cancel := context.WithTimeoutCause(ctx, preflightFor, phase.ErrGaveUp)
	defer cancel()
	probed, err := o.probe(ctx)
	if err != nil {
		return report, fmt.Errorf("preflight %s: %w", o.what, err)
	}
	defined, err := o.definition(ctx, m)
	if err != nil {
		return report, fmt.Errorf("preflight %s: definition: %w", o.what, err)
	}
	report.Findings = slices.Concat(probed, defined)
	if slices.ContainsFunc(defined, func(f Finding) bool { return f.Problem == ProblemUnserved }) {
		report.Findings = defined // it says why
	}
	report.sort()
	return report, nil
}

// probe reads the object.
func (o *Object[P]) probe(ctx context.Context) ([]Finding, error) {
	_, err := patiently(ctx, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return o.client.Get(ctx, o.name, metav1.GetOptions{})
	})
	switch {
	case errors.Is(err, phase.ErrMissingAPI):
		return []Finding{{Severity: SeverityFatal, Problem: ProblemUnserved, Detail: "the server does not know it"}}, nil
	case errors.Is(err, phase.ErrForbidden):
		return []Finding{{Severity: SeverityDegraded, Problem: ProblemForbidden, Detail: err.Error()}}, nil
	case errors.Is(err, phase.ErrNotFound):
		return nil, nil
	default:
		return nil, err
	}
}

// definition reads the resource's definition and judges it.
func (o *Object[P]) definition(ctx context.Context, m *phase.Machine[P]) ([]Finding, error) {
	if o.gvr.Group == "" {
		return nil, nil // built in
	}
	name := o.gvr.GroupResource().String()
	obj, err := patiently(ctx, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return o.definitions.Get(ctx, name, metav1.GetOptions{})
	})
	unchecked := Finding{Severity: SeverityUnchecked, Problem: ProblemNotChecked}
	switch {
	case errors.Is(err, phase.ErrForbidden):
		unchecked.Detail = "the definition may not be read: " + err.Error()
		return []Finding{unchecked}, nil
	case errors.Is(err, phase.ErrNotFound), errors.Is(err, phase.ErrMissingAPI):
		unchecked.Detail = "there is no definition " + name + ": the resource is built in, or another server's"
		return []Finding{unchecked}, nil
	case err != nil:
		return nil, err
	}
	d, err := newDefinition(obj)
	if err != nil {
		return nil, err
	}
	return judge(d, subject{
		version: o.gvr.Version, namespaced: o.namespaced, status: len(o.sub) > 0, fields: o.used, phases: written(m),
	}), nil
}

// written returns the phases that an Applier can write, sorted.
func written[P ~string](m *phase.Machine[P]) []string {
	var phases []string
	for _, t := range m.Transitions() {
		phases = append(phases, string(t.To))
	}
	slices.Sort(phases)
	return slices.Compact(phases)
}

// patiently reads until there is an answer that can be believed.
func patiently[T any](ctx context.Context, read func(ctx context.Context) (T, error)) (T, error) {
	var refused time.Time
	for {
		got, err := once(ctx, read)
		if err == nil {
			return got, nil
		}
		err = readError(err)
		wait := preflightPause
		switch {
		case errors.Is(err, phase.ErrForbidden), errors.Is(err, phase.ErrNotFound), errors.Is(err, phase.ErrMissingAPI):
			if refused.IsZero() {
				refused = time.Now()
			}
			if time.Since(refused) >= confirmAfter {
				return got, err
			}
			wait = confirmAfter
		case !phase.IsTransient(err):
			return got, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return got, fmt.Errorf("%w; last: %w", context.Cause(ctx), err)
		case <-timer.C:
		}
	}
}

func once[T any](ctx context.Context, read func(ctx context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, preflightAttempt)
	defer cancel()
	return read(ctx)
}
