package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
)

// attempts is how often Up tries again with other ports when somebody took one of them.
const attempts = 3

// Up starts a stack with fresh data and returns when all of it is ready: the components healthy, the CRDs established,
// the roles, the classes and the node there, and objects of the snapshot API can be created. When it fails, or ctx
// ends, it ends what it started and removes the directory, then returns what is wrong with opts, the errors of [Build]
// and of the file system, an [*UnhealthyError] wrapped, or ctx's error. The processes outlive the caller: see
// [Stack.Down].
func Up(ctx context.Context, opts Options) (*Stack, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	logger, begin := logr.FromContextOrDiscard(ctx), time.Now()
	if opts.Bin == "" {
		bin, err := Build(ctx, BuildOptions{})
		if err != nil {
			return nil, err
		}
		logger.Info("the programs are built", "seconds", seconds(begin))
		opts.Bin, begin = bin, time.Now()
	}
	for attempt := 1; ; attempt++ {
		s, err := upOnce(ctx, opts)
		if err == nil {
			logger.Info("the stack is ready", "seconds", seconds(begin), "dir", s.Dir())
			return s, nil
		}
		if !portTaken(err) || attempt == attempts {
			return nil, err
		}
		logger.Info("a port was taken, trying others", "attempt", attempt)
	}
}

func seconds(since time.Time) float64 { return time.Since(since).Round(time.Second / 10).Seconds() }

// portTaken reports whether a component could not listen.
func portTaken(err error) bool {
	unhealthy, ok := errors.AsType[*UnhealthyError](err)
	return ok && strings.Contains(unhealthy.Log, "address already in use")
}

func upOnce(ctx context.Context, opts Options) (_ *Stack, err error) {
	dir, err := opts.makeDir()
	if err != nil {
		return nil, err
	}
	s, err := lay(dir, opts)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := s.up(ctx, opts); err != nil {
		return nil, errors.Join(fmt.Errorf("start the stack: %w", err), s.end(ctx, true))
	}
	return s, nil
}

// lay fills the directory with all that the components read.
func lay(dir string, opts Options) (*Stack, error) {
	ports, err := choosePorts(Etcd, etcdPeer, APIServer, ControllerManager, SnapshotController, Snapshotter, Provisioner, Kubelet)
	if err != nil {
		return nil, err
	}
	l := layout{dir: dir, Bin: opts.Bin, Ports: ports, Fsync: opts.Fsync, KeepData: opts.KeepData}
	if err := l.makeDirs(); err != nil {
		return nil, err
	}
	ca, err := newPKI(l.path("pki"))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(l.path(auditPolicy), auditPolicyYAML, 0o600); err != nil {
		return nil, err
	}
	s, err := newStack(l, ca)
	if err != nil {
		return nil, err
	}
	for _, user := range []string{Admin, ControllerManager, SnapshotController, Snapshotter, Provisioner, Kubelet} {
		if _, err := s.Kubeconfig(user); err != nil {
			return nil, err
		}
	}
	for name, flags := range opts.Flags {
		if err := s.writeRecord(name, record{Flags: flags}); err != nil {
			return nil, err
		}
	}
	return s, l.write() // last: a directory with a state file can be attached to
}

// up starts everything, each as soon as what it needs is there.
func (s *Stack) up(ctx context.Context, opts Options) error {
	group, ctx := errgroup.WithContext(ctx)
	start := func(names ...string) error {
		for _, name := range names {
			if slices.Contains(opts.Without, name) {
				continue
			}
			if err := s.startOne(ctx, name); err != nil {
				return err
			}
		}
		return nil
	}
	driver := make(chan struct{})
	group.Go(func() error {
		defer close(driver)
		return start(Driver)
	})
	group.Go(func() error {
		if err := start(Etcd, APIServer); err != nil {
			return err
		}
		in, err := s.installer()
		if err != nil {
			return err
		}
		if err := in.roles(ctx, s.layout.crds()); err != nil {
			return err
		}
		group.Go(func() error { return in.objects(ctx, s.layout.Ports[Kubelet]) })
		group.Go(func() error { return start(ControllerManager) })
		group.Go(func() error { return start(SnapshotController) })
		group.Go(func() error { return start(Kubelet) })
		<-driver // which ends when it cannot start, too
		group.Go(func() error { return start(Snapshotter) })
		return start(Provisioner)
	})
	return group.Wait()
}

// startOne starts one component and nothing else.
func (s *Stack) startOne(ctx context.Context, name string) error {
	begin := time.Now()
	err := s.operate(ctx, name, func(c componentRun) error { return c.start(ctx) })
	if err == nil {
		logr.FromContextOrDiscard(ctx).V(1).Info("healthy", "component", name, "seconds", seconds(begin))
	}
	return err
}
