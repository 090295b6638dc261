// Command stack runs the real snapshot stack by hand: see the README of test/e2e.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/sheetanchor/sheetanchor/test/e2e/stack"
)

const usage = `usage: stack [-dir DIR] COMMAND

  build                        build what is missing and print the directory of the programs
  up [FLAG...]                 start a stack in DIR and print the variables that find it; up -h tells the flags
  down                         end it and remove DIR
  status                       what its components do
  start|stop|kill COMPONENT    one component
  pause|resume COMPONENT
  restart COMPONENT [FLAG...]  with these extra flags instead of the former ones
  logs COMPONENT               print its log
  kubeconfig [USER]            print the path of a kubeconfig, of admin by default
  run [ARG...]                 up, go test ./... ARG..., down

DIR is $` + stack.EnvDir + ` by default, and sheetanchor/e2e/up in the user's cache directory when that is empty.
`

// errUsage is a command line that cannot be understood.
var errUsage = errors.New("see stack -h")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP) //nolint:forbidigo // here it begins
	logger := funcr.New(func(_, args string) { _, _ = fmt.Fprintln(os.Stderr, "stack:", args) }, funcr.Options{Verbosity: 1})
	err := run(logr.NewContext(ctx, logger), os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "stack:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("stack", flag.ContinueOnError)
	flags.Usage = func() { _, _ = fmt.Fprint(flags.Output(), usage) }
	dir := flags.String("dir", os.Getenv(stack.EnvDir), "the stack's directory")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return fmt.Errorf("no command: %w", errUsage)
	}
	c := command{dir: *dir, args: flags.Args()[1:], out: out}
	if c.dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return err
		}
		c.dir = filepath.Join(cache, "sheetanchor", "e2e", "up")
	}
	return c.call(ctx, flags.Arg(0))
}
