package csisnapshot

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	// ErrNoSnapshotAPI says that the cluster has no snapshot.storage.k8s.io/v1 API: its custom resource definitions are
	// not installed.
	ErrNoSnapshotAPI = errors.New("the cluster has no API snapshot.storage.k8s.io/v1: the snapshot custom resource definitions are not installed")
	// ErrNamespaceNotFound says that the namespace to plan does not exist.
	ErrNamespaceNotFound = errors.New("namespace not found")
)

// planTimeout bounds each read of a plan, which is one page of a list, repetitions included.
const planTimeout = time.Minute

// Plan reads the namespace and plans it, as [Group] does. It reads one paged list each of pods, claims, persistent volumes
// and snapshot classes, and writes nothing.
//
// It is [ErrNoSnapshotAPI] without the snapshot API and [ErrNamespaceNotFound] for a namespace that does not exist. Claims
// that need a person's correction are no error of Plan: they are in [Plan.Faults], and [Plan.Err] joins them.
func (s *Snapshotter) Plan(ctx context.Context, namespace string) (*Plan, error) {
	if err := s.made(); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	if namespace == "" {
		return nil, errors.New("plan: namespace is empty")
	}
	in := Inputs{
		Namespace: namespace, ClassAnnotations: s.opts.ClassAnnotations, Names: s.opts.Names, Key: s.opts.BatchKey,
		ClaimLabels: s.opts.ClaimLabels,
	}
	if s.opts.Quiescer != nil {
		in.Hooks = s.opts.Quiescer.Hooks
	}
	err := pages(ctx, planTimeout, func(ctx context.Context, opts metav1.ListOptions) (string, error) {
		page, err := s.snaps.Classes().List(ctx, "", ListOptions{Limit: opts.Limit, Continue: opts.Continue})
		if err != nil {
			return "", err
		}
		in.Classes = append(in.Classes, page.Items...)
		return page.Continue, nil
	}, func() { in.Classes = nil })
	switch {
	case apiMissing(err):
		return nil, fmt.Errorf("plan namespace %s: %w", namespace, ErrNoSnapshotAPI)
	case err != nil:
		return nil, fmt.Errorf("plan namespace %s: list snapshot classes: %w", namespace, err)
	}
	if err := s.listCore(ctx, &in); err != nil {
		return nil, fmt.Errorf("plan namespace %s: %w", namespace, err)
	}
	if len(in.Claims) == 0 {
		if err := s.checkNamespace(ctx, namespace); err != nil {
			return nil, err
		}
	}
	return Group(in), nil
}

// listCore reads pods, claims and volumes.
func (s *Snapshotter) listCore(ctx context.Context, in *Inputs) error {
	core, ns := s.core.CoreV1(), in.Namespace
	err := pages(ctx, planTimeout, func(ctx context.Context, opts metav1.ListOptions) (string, error) {
		list, err := core.Pods(ns).List(ctx, opts)
		if err != nil {
			return "", err
		}
		in.Pods = append(in.Pods, list.Items...)
		return list.Continue, nil
	}, func() { in.Pods = nil })
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	err = pages(ctx, planTimeout, func(ctx context.Context, opts metav1.ListOptions) (string, error) {
		list, err := core.PersistentVolumeClaims(ns).List(ctx, opts)
		if err != nil {
			return "", err
		}
		in.Claims = append(in.Claims, list.Items...)
		return list.Continue, nil
	}, func() { in.Claims = nil })
	if err != nil {
		return fmt.Errorf("list persistent volume claims: %w", err)
	}
	wanted := make(map[string]bool, len(in.Claims))
	for _, c := range in.Claims {
		wanted[c.Spec.VolumeName] = true
	}
	err = pages(ctx, planTimeout, func(ctx context.Context, opts metav1.ListOptions) (string, error) {
		list, err := core.PersistentVolumes().List(ctx, opts)
		if err != nil {
			return "", err
		}
		for _, v := range list.Items {
			if wanted[v.Name] {
				in.Volumes = append(in.Volumes, v)
			}
		}
		return list.Continue, nil
	}, func() { in.Volumes = nil })
	if err != nil {
		return fmt.Errorf("list persistent volumes: %w", err)
	}
	return nil
}

// pages reads all pages of a list, each within limit. A list that expired between two pages is begun again, after reset.
func pages(ctx context.Context, limit time.Duration, page func(context.Context, metav1.ListOptions) (string, error), reset func()) error {
	opts := metav1.ListOptions{Limit: pageSize}
	for restarts := 0; ; {
		var next string
		err := retry(ctx, limit, func(ctx context.Context) (err error) {
			next, err = page(ctx, opts)
			return err
		})
		switch {
		case apierrors.IsResourceExpired(err) && opts.Continue != "" && restarts < 3:
			restarts++
			reset()
			next = ""
		case err != nil:
			return err
		case next == "":
			return nil
		}
		opts.Continue = next
	}
}

// checkNamespace tells an empty namespace from one that does not exist. A user who may not read namespaces is not told.
func (s *Snapshotter) checkNamespace(ctx context.Context, namespace string) error {
	err := retry(ctx, planTimeout, func(ctx context.Context) error {
		_, err := s.core.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		return err
	})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("plan namespace %s: %w", namespace, ErrNamespaceNotFound)
	case err != nil && !apierrors.IsForbidden(err):
		return fmt.Errorf("plan namespace %s: read the namespace: %w", namespace, err)
	}
	return nil
}
