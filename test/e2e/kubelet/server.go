package kubelet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sheetanchor/sheetanchor/test/e2e/internal/unixsocket"
)

// endTime is how long plain requests may take to end when the server does.
const endTime = 5 * time.Second

// Server is a kubelet that runs nothing. Make one with [New], then call [Server.Run] once, or [Server.Close].
type Server struct {
	pods    *pods
	scripts *scripts
	record  *recorder
	conns   *conns
	exec    net.Listener // TLS
	control net.Listener
	stopped chan struct{} // closed when Run ends
}

// New opens the record and listens on both addresses, so that requests wait from now on. ctx bounds only that. Its error
// joins all faults of the options, or is what could not be opened.
func New(ctx context.Context, opts Options) (*Server, error) {
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("kubelet options: %w", err)
	}
	tlsConfig, err := opts.tlsConfig()
	if err != nil {
		return nil, fmt.Errorf("kubelet options: %w", err)
	}
	config := rest.CopyConfig(opts.Config)
	if config.QPS == 0 {
		config.QPS = -1
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("kubelet options: Config: %w", err)
	}
	s := &Server{scripts: &scripts{}, conns: &conns{}, stopped: make(chan struct{})}
	if err := s.open(ctx, opts, tlsConfig); err != nil {
		return nil, errors.Join(fmt.Errorf("start kubelet: %w", err), s.Close())
	}
	s.pods = newPods(client, opts.Node)
	return s, nil
}

func (s *Server) open(ctx context.Context, opts Options, tlsConfig *tls.Config) error {
	var err error
	if s.record, err = openRecorder(opts.RecordFile); err != nil {
		return err
	}
	exec, err := new(net.ListenConfig).Listen(ctx, "tcp", opts.Listen)
	if err != nil {
		return err
	}
	s.exec = tls.NewListener(exec, tlsConfig)
	s.control, err = unixsocket.Listen(ctx, opts.Control)
	return err
}

// Addr is the address of the exec server.
func (s *Server) Addr() net.Addr { return s.exec.Addr() }

// Close releases what [New] opened, for a server that is not run. It returns the errors of closing.
func (s *Server) Close() error {
	var errs []error
	for _, l := range []net.Listener{s.exec, s.control} {
		if l != nil {
			if err := l.Close(); !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
	}
	if s.pods != nil {
		s.pods.queue.ShutDown()
	}
	if s.record != nil {
		errs = append(errs, s.record.close())
	}
	return errors.Join(errs...)
}

// Run serves and looks after pods until ctx ends, which is no error, or a listener fails. Commands that still run then
// are not ended in the record. It closes everything and must be called once.
func (s *Server) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	var execs sync.WaitGroup
	group.Go(func() error {
		err := serve(ctx, s.exec, counted(&execs, s.execMux()))
		close(s.stopped) // first, so that no command takes its connection's end for the client's
		s.conns.closeAll()
		return err
	})
	group.Go(func() error { return serve(ctx, s.control, s.controlMux()) })
	group.Go(func() error {
		s.pods.run(ctx)
		return nil
	})
	err := group.Wait()
	execs.Wait()
	return errors.Join(err, s.Close())
}

func (s *Server) execMux() *http.ServeMux {
	handler := &execHandler{pods: s.pods, scripts: s.scripts, record: s.record, conns: s.conns, stopped: s.stopped}
	mux := http.NewServeMux()
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		mux.Handle(method+" /exec/{namespace}/{pod}/{container}", handler)
		mux.Handle(method+" /exec/{namespace}/{pod}/{uid}/{container}", handler)
	}
	return mux
}

// counted counts running handlers: the HTTP server does not wait for those that took over their connection.
func counted(running *sync.WaitGroup, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		running.Add(1)
		defer running.Done()
		next.ServeHTTP(w, req)
	})
}

// serve answers requests until ctx ends, which their contexts derive from.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler:           handler,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          slog.NewLogLogger(logr.ToSlogHandler(logr.FromContextOrDiscard(ctx)), slog.LevelInfo),
	}
	ended := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() { ended <- server.Serve(listener) })
	defer wg.Wait()
	select {
	case err := <-ended:
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		_ = server.Close()
	}
	return nil
}
