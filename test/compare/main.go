// Command compare does the same work through Velero and through sheetanchor, in one process, and prints a table of both.
//
// Usage: go run . [-run REGEXP] [-short] [-json] [-check]
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"

	"github.com/sheetanchor/sheetanchor/test/compare/internal/loadtest"
	"github.com/sheetanchor/sheetanchor/test/compare/internal/tracktest"
)

// parse reads the command line; what is wrong with it is written to stderr.
func parse(args []string, stderr io.Writer) (loadtest.Options, error) {
	var o loadtest.Options
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	flags.SetOutput(stderr)
	pattern := flags.String("run", "", "only workloads whose name matches this `regexp`")
	flags.BoolVar(&o.Short, "short", false, "smaller sizes, for CI: what takes minutes takes seconds")
	flags.BoolVar(&o.JSON, "json", false, "print JSON instead of a table")
	flags.BoolVar(&o.Check, "check", false, "exit 1 when a target is missed")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	var err error
	if o.Run, err = regexp.Compile(*pattern); err != nil {
		err = fmt.Errorf("-run: %w", err)
	} else if flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
	}
	return o, err
}

func main() {
	if tracktest.Child() {
		return
	}
	o, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(2)
	}
	loadtest.Main(o)
}
