// Command kubelet is a kubelet for tests that runs no containers; package kubelet describes it. It ends on SIGTERM or an
// interrupt with exit code 0, and with 1 if it cannot serve.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sheetanchor/sheetanchor/test/e2e/kubelet"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // here it begins
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "kubelet:", err)
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

// run serves until ctx ends.
func run(ctx context.Context, args []string) error {
	var opts kubelet.Options
	flags := flag.NewFlagSet("kubelet", flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "`file` that says how to reach the API server")
	flags.StringVar(&opts.Node, "node", "", "`name` of the node whose pods to look after")
	flags.StringVar(&opts.Listen, "listen", "", "`address` of the exec server, for example 127.0.0.1:10250")
	flags.StringVar(&opts.CertFile, "cert", "", "`file` with the serving certificate")
	flags.StringVar(&opts.KeyFile, "key", "", "`file` with the key of the serving certificate")
	flags.StringVar(&opts.ClientCAFile, "client-ca", "", "`file` with the CA of clients' certificates")
	flags.StringVar(&opts.RecordFile, "record", "", "`file` to record execs in, as JSON lines")
	flags.StringVar(&opts.Control, "control", "", "`address` of the control server, unix:///absolute/path")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if *kubeconfig == "" {
		return errors.New("-kubeconfig: must not be empty")
	}
	var err error
	if opts.Config, err = clientcmd.BuildConfigFromFlags("", *kubeconfig); err != nil {
		return fmt.Errorf("-kubeconfig %q: %w", *kubeconfig, err)
	}
	ctx = logr.NewContext(ctx, logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil)))
	server, err := kubelet.New(context.WithoutCancel(ctx), opts) // Run ends at once if ctx has ended
	if err != nil {
		return err
	}
	logr.FromContextOrDiscard(ctx).Info("serving", "node", opts.Node, "address", server.Addr().String(), "control", opts.Control)
	return server.Run(ctx)
}
