package program

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Flags returns an empty set of flags whose mistakes are told by [Parse] only.
func Flags(name string) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // a wrong flag is one line of ours
	return flags
}

// Parse reads the flags. It refuses other arguments, and prints the usage to stderr when it returns flag.ErrHelp.
func Parse(flags *flag.FlagSet, args []string, stderr io.Writer) error {
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		flags.SetOutput(stderr)
		fmt.Fprintf(stderr, "usage: %s [flags]\n", flags.Name())
		flags.PrintDefaults()
	case err == nil && flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return err
}

// Pair adds the value of a flag of the form want, which is like KEY=VALUE, to all. A key that is given twice is refused.
func Pair(want string, all map[string]string) func(string) error {
	return func(v string) error {
		key, value, err := CutPair(want, v)
		if err != nil {
			return err
		}
		if first, double := all[key]; double {
			return fmt.Errorf("%s is given twice, as %s and %s", key, first, value)
		}
		all[key] = value
		return nil
	}
}

// CutPair returns both sides of the value of a flag of the form want, neither of them empty.
func CutPair(want, v string) (key, value string, err error) {
	key, value, ok := strings.Cut(v, "=")
	if !ok || key == "" || value == "" {
		return "", "", fmt.Errorf("want %s, got %q", want, v)
	}
	return key, value, nil
}

// Outputs checks the flag -o.
func Outputs(output string) error {
	if slices.Contains([]string{"text", "json"}, output) {
		return nil
	}
	return fmt.Errorf("-o %q: want text or json", output)
}
