package main

import (
	"context"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/csisnapshot/podexec"
	"github.com/sheetanchor/sheetanchor/internal/apirequest"
)

// environment is the cluster that a backup is taken from, and how its pods are frozen.
type environment struct {
	config    *rest.Config
	namespace string
	quiescer  csisnapshot.Quiescer
	requests  apirequest.Counter
	close     func() error
}

// openEnvironment starts the embedded cluster or connects to the real one. It changes nothing in a real cluster.
func openEnvironment(ctx context.Context, opts options, stderr io.Writer) (*environment, error) {
	if opts.embedded() {
		return startEmbedded(ctx, opts, stderr)
	}
	config, err := clientcmd.BuildConfigFromFlags("", opts.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("-kubeconfig %s: %w", opts.kubeconfig, err)
	}
	config.UserAgent = "sheetanchor-example-backup"
	config.QPS, config.Burst = 50, 100
	env := &environment{config: config, namespace: opts.namespace, close: func() error { return nil }}
	env.count() // first: the executor of hooks keeps a copy of the config
	if env.quiescer, err = podexec.New(config, podexec.Options{}); err != nil {
		return nil, fmt.Errorf("-kubeconfig %s: %w", opts.kubeconfig, err)
	}
	return env, nil
}

// count counts the requests of the backup at the transport, below client-go's retries.
func (e *environment) count() {
	e.config.Wrap(e.requests.Wrap)
}

// clients are what the packages work with, on one config.
type clients struct {
	core    kubernetes.Interface
	dynamic dynamic.Interface
}

func newClients(config *rest.Config) (clients, error) {
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return clients{}, fmt.Errorf("core client: %w", err)
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return clients{}, fmt.Errorf("dynamic client: %w", err)
	}
	return clients{core: core, dynamic: dyn}, nil
}

// checkNamespace turns an unknown namespace into one clear line before anything is written.
func checkNamespace(ctx context.Context, core kubernetes.Interface, namespace string) error {
	_, err := core.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("namespace %q does not exist", namespace)
	case apierrors.IsForbidden(err):
		return nil // a role without access to namespaces finds out at its first list
	default:
		return err
	}
}
