package app

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// atOnce bounds requests that are sent at the same time.
const atOnce = 20

// App is an application in a namespace of its own.
type App struct {
	// Namespace is where it is.
	Namespace string
	// User may do what the example's roles say in the namespace, and nothing else.
	User string

	cluster *Cluster
}

// Create makes an application and returns when its claims are bound, its pods run and its user may do what roles says,
// the path of a file like the example's rbac.yaml. The namespace must not exist. What was made before an error stays until
// [App.Remove] of the App that is returned with it.
func (c *Cluster) Create(ctx context.Context, namespace, roles string, spec Spec) (*App, error) {
	a := &App{Namespace: namespace, User: "backup:" + namespace, cluster: c}
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := c.Core.CoreV1().Namespaces().Create(ctx, made, metav1.CreateOptions{}); err != nil {
		return a, fmt.Errorf("create namespace %s: %w", namespace, err)
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.grant(groupCtx, roles) })
	group.Go(func() error { return a.Add(groupCtx, spec) })
	return a, group.Wait()
}

// Add makes more claims and pods and returns when the claims are bound and the pods run.
func (a *App) Add(ctx context.Context, spec Spec) error {
	claims := a.cluster.Core.CoreV1().PersistentVolumeClaims(a.Namespace)
	pods := a.cluster.Core.CoreV1().Pods(a.Namespace)
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, claim := range spec.claims() {
		group.Go(func() error {
			if _, err := claims.Create(groupCtx, claim.object(), metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("create claim %s/%s: %w", a.Namespace, claim.Name, err)
			}
			return nil
		})
	}
	for _, pod := range spec.Pods {
		group.Go(func() error {
			if _, err := pods.Create(groupCtx, pod.object(a.cluster.Stack.Node()), metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("create pod %s/%s: %w", a.Namespace, pod.Name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return await(ctx, "all claims of "+a.Namespace+" are bound and its pods run", a.running)
}

// running reports whether every claim is bound and every pod runs.
func (a *App) running(ctx context.Context) (bool, error) {
	claims, err := a.cluster.Core.CoreV1().PersistentVolumeClaims(a.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	for i := range claims.Items {
		if claims.Items[i].Status.Phase != corev1.ClaimBound {
			return false, nil
		}
	}
	pods, err := a.cluster.Core.CoreV1().Pods(a.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	for i := range pods.Items {
		if pods.Items[i].Status.Phase != corev1.PodRunning {
			return false, nil
		}
	}
	return true, nil
}

// Pattern matches all claims of the application in scripts of the driver.
func (a *App) Pattern() string { return a.Namespace + "/*" }
