package app

import (
	"context"
	"fmt"
	"net/http"
	"time"

	snapshots "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sheetanchor/sheetanchor/test/e2e/stack"
)

// Waits for the cluster are bounded generously: the machine may be busy.
const (
	awaitPoll  = 100 * time.Millisecond
	awaitShare = 6 // the pause is so many times as long as the answer took
	awaitBound = 3 * time.Minute
)

// Cluster makes applications on a stack, as admin. Make one with [NewCluster].
type Cluster struct {
	// Stack is what the cluster runs on.
	Stack *stack.Stack
	// Core and Snapshots are admin's clients.
	Core      kubernetes.Interface
	Snapshots snapshots.Interface

	http *http.Client
}

// NewCluster returns the cluster of a stack. It asks for nothing yet.
func NewCluster(s *stack.Stack) (*Cluster, error) {
	config := s.Config(stack.Admin)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client of %s: %w", stack.Admin, err)
	}
	core, err := kubernetes.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("core client: %w", err)
	}
	snaps, err := snapshots.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("snapshot client: %w", err)
	}
	return &Cluster{Stack: s, Core: core, Snapshots: snaps, http: client}, nil
}

// Close closes connections that are not in use.
func (c *Cluster) Close() { utilnet.CloseIdleConnectionsFor(c.http.Transport) }

// await asks until yes, and spends most of the time between two questions. An error of yes is asked again until the bound; the last one
// is in the error then.
func await(ctx context.Context, what string, yes wait.ConditionWithContextFunc) error {
	ctx, cancel := context.WithTimeout(ctx, awaitBound)
	defer cancel()
	for {
		began := time.Now()
		done, err := yes(ctx)
		if done && err == nil {
			return nil
		}
		timer := time.NewTimer(max(awaitPoll, awaitShare*time.Since(began)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			ended := context.Cause(ctx)
			if err != nil {
				ended = fmt.Errorf("%w (last: %w)", ended, err)
			}
			return fmt.Errorf("await that %s: %w", what, ended)
		}
	}
}
