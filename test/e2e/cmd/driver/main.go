// Command driver is a CSI driver whose behaviour is set by scripts while it runs; package driver describes it. It ends on
// SIGTERM or an interrupt with exit code 0, and with 1 if it cannot serve.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/sheetanchor/sheetanchor/test/e2e/driver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt) //nolint:forbidigo // here it begins
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "driver:", err)
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

// run serves until ctx ends.
func run(ctx context.Context, args []string) error {
	opts := driver.Options{Log: os.Stderr}
	flags := flag.NewFlagSet("driver", flag.ContinueOnError)
	flags.StringVar(&opts.Name, "name", "csi.e2e.sheetanchor.io", "the CSI driver `name`")
	flags.StringVar(&opts.Endpoint, "endpoint", "", "`address` of the CSI services, unix:///absolute/path")
	flags.StringVar(&opts.Control, "control", "", "`address` of the control endpoint (HTTP), unix:///absolute/path")
	flags.StringVar(&opts.State, "state", "", "`file` that keeps what the driver holds")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return driver.Run(ctx, opts)
}
