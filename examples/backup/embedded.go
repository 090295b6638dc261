package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"k8s.io/client-go/dynamic"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

// startEmbedded starts an in-memory cluster with a fake snapshot controller. The cluster keeps its objects and the storage
// its snapshots in the store's directory, so that a program that was killed meets them again.
func startEmbedded(ctx context.Context, opts options, stderr io.Writer) (_ *environment, err error) {
	lock, err := lockStore(opts.store)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	cluster, err := startCluster(opts, stderr)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			cluster.Close()
		}
	}()
	config := cluster.Config()
	namespace, err := pickNamespace(ctx, config, opts)
	if err != nil {
		return nil, err
	}
	drivers, err := driverNames(ctx, config)
	if err != nil {
		return nil, err
	}
	scripts, err := scripts(ctx, config, opts, namespace)
	if err != nil {
		return nil, err
	}
	driver := backuptest.NewDriver(backuptest.DriverOptions{Names: drivers, File: filepath.Join(opts.store, "driver.json")})
	if err := driver.Load(); err != nil {
		return nil, err
	}
	quiescer, err := newEmbeddedQuiescer(config)
	if err != nil {
		return nil, err
	}
	stop, err := startController(ctx, config, driver, scripts)
	if err != nil {
		return nil, err
	}
	env := &environment{config: cluster.Config(), namespace: namespace, quiescer: quiescer}
	env.count()
	env.close = func() error {
		err := stop()
		cluster.Close()
		return errors.Join(err, lock.Close())
	}
	return env, nil
}

// startController runs the fake snapshot controller until stop is called, which waits for it.
func startController(ctx context.Context, config *rest.Config, driver *backuptest.Driver, scripts map[string]backuptest.Script) (stop func() error, err error) {
	config.QPS = -1 // the fake controller has its own rate
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	controller := backuptest.NewSnapshotController(client, driver, backuptest.ControllerOptions{Scripts: scripts})
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	var ended error
	group.Go(func() { ended = controller.Run(ctx) })
	return func() error {
		cancel()
		group.Wait()
		if errors.Is(ended, context.Canceled) {
			return nil
		}
		return ended
	}, nil
}

// The storage of the embedded cluster is quick, but not too quick to watch.
const (
	usualCut   = 200 * time.Millisecond
	usualReady = time.Second
)

// scripts tell the storage what to do with the snapshots of each claim.
func scripts(ctx context.Context, config *rest.Config, opts options, namespace string) (map[string]backuptest.Script, error) {
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("core client: %w", err)
	}
	claims, err := core.CoreV1().PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list claims: %w", err)
	}
	all := map[string]backuptest.Script{}
	for _, c := range claims.Items {
		all[c.Name] = backuptest.Script{CutAfter: usualCut, ReadyAfter: usualReady}
	}
	var faults []error
	change := func(flag, claim string, change func(*backuptest.Script)) {
		s, ok := all[claim]
		if !ok {
			faults = append(faults, fmt.Errorf("%s %s: namespace %s has no such claim", flag, claim, namespace))
		}
		change(&s)
		all[claim] = s
	}
	for _, claim := range slices.Sorted(maps.Keys(opts.fail)) {
		change("-fail", claim, func(s *backuptest.Script) {
			s.Errors = []backuptest.DriverError{{Code: "InvalidArgument", Text: opts.fail[claim]}}
		})
	}
	for _, claim := range slices.Sorted(maps.Keys(opts.slow)) {
		change("-slow", claim, func(s *backuptest.Script) { s.CutAfter = opts.slow[claim] })
	}
	return all, errors.Join(faults...)
}

// driverNames are the CSI drivers of the cluster's volumes; the one fake storage serves them all.
func driverNames(ctx context.Context, config *rest.Config) ([]string, error) {
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("core client: %w", err)
	}
	volumes, err := core.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list persistent volumes: %w", err)
	}
	names := map[string]bool{}
	for _, v := range volumes.Items {
		if v.Spec.CSI != nil {
			names[v.Spec.CSI.Driver] = true
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// pickNamespace is the namespace asked for, or the only one that has claims.
func pickNamespace(ctx context.Context, config *rest.Config, opts options) (string, error) {
	if opts.namespace != "" {
		return opts.namespace, nil
	}
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	claims, err := core.CoreV1().PersistentVolumeClaims(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("list claims: %w", err)
	}
	var found []string
	for _, c := range claims.Items {
		if ns := c.Namespace; len(found) == 0 || found[len(found)-1] != ns {
			found = append(found, ns)
		}
	}
	switch len(found) {
	case 0:
		return "", errors.New("no namespace has a claim")
	case 1:
		return found[0], nil
	default:
		return "", fmt.Errorf("several namespaces have claims (%s): choose one with -namespace", strings.Join(found, ", "))
	}
}
