package driver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/internal/atomicfile"
	"github.com/sheetanchor/sheetanchor/test/e2e/internal/unixsocket"
	"google.golang.org/grpc"
)

const (
	lockTimeout  = 10 * time.Second
	lockInterval = 20 * time.Millisecond
)

var errLockHeld = errors.New("another driver holds the state")

// Run serves until ctx ends, then ends the calls that are under way, removes the sockets, and returns nil. It waits up to
// 10 s for a driver on the same state that is about to end. It returns an error, and serves nothing, for bad options, a state
// that cannot be read and a socket that it cannot listen on; and the error of a listener that fails later.
func Run(ctx context.Context, opts Options) (err error) {
	opts, err = opts.withDefaults()
	if err != nil {
		return err
	}
	lockCtx, cancel := context.WithTimeoutCause(ctx, lockTimeout, errLockHeld)
	defer cancel()
	lock, err := atomicfile.Lock(lockCtx, atomicfile.OS{}, opts.State+".lock", lockInterval)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	s, err := open(opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.journal.close()) }()
	if ctx.Err() != nil {
		return nil // it was to end before it began
	}
	return s.serve(ctx, opts)
}

// open reads what the driver holds.
func open(opts Options) (*service, error) {
	st, err := openStore(opts.State)
	if err != nil {
		return nil, err
	}
	storage := backuptest.NewDriver(backuptest.DriverOptions{
		Names: []string{opts.Name}, File: opts.State + ".snapshots", Clock: opts.Clock,
	})
	if err := storage.Load(); err != nil {
		return nil, err
	}
	calls, err := openJournal(opts.State + ".calls")
	if err != nil {
		return nil, err
	}
	return &service{
		name: opts.Name, clock: opts.Clock, store: st, storage: storage, journal: calls, limits: newLimiters(st.get().Limits),
	}, nil
}

// serve answers on both sockets until ctx ends or one of them fails.
func (s *service) serve(ctx context.Context, opts Options) error {
	controlListener, err := unixsocket.Listen(ctx, opts.Control)
	if err != nil {
		return err
	}
	endpointListener, err := unixsocket.Listen(ctx, opts.Endpoint)
	if err != nil {
		return errors.Join(err, controlListener.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	calls := grpc.NewServer(grpc.UnaryInterceptor(s.recorder(&errorLog{w: opts.Log})), grpc.WaitForHandlers(true))
	csi.RegisterIdentityServer(calls, s)
	csi.RegisterControllerServer(calls, s)
	csi.RegisterGroupControllerServer(calls, s)
	control := &http.Server{
		Handler: s.controlHandler(), ReadHeaderTimeout: time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	failures := make(chan error, 2)
	go func() { failures <- named("serve calls", calls.Serve(endpointListener)) }()
	go func() { failures <- named("serve control", control.Serve(controlListener)) }()
	var first error
	ended := 0
	select {
	case <-ctx.Done():
	case first = <-failures:
		ended++
	}
	cancel() // ends long polls of the control endpoint
	calls.Stop()
	stopped := control.Shutdown(context.WithoutCancel(ctx))
	for ; ended < cap(failures); ended++ {
		first = errors.Join(first, <-failures)
	}
	return errors.Join(first, stopped)
}

// named wraps the error of a server that did not end because it was told to.
func named(what string, err error) error {
	if err == nil || errors.Is(err, http.ErrServerClosed) || errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
