package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/sheetanchor/sheetanchor/test/e2e/stack"
)

// command is one invocation.
type command struct {
	dir  string
	args []string // after the command's name
	out  io.Writer
}

// action is what a command's name stands for.
type action struct {
	least, most int // arguments; most below 0: any number
	do          func(c command, ctx context.Context) error
}

func actions() map[string]action {
	return map[string]action{
		"build":      {0, 0, command.build},
		"up":         {0, -1, command.up},
		"run":        {0, -1, command.run},
		"down":       {0, 0, attached(func(_ command, ctx context.Context, s *stack.Stack) error { return s.Down(ctx) })},
		"status":     {0, 0, attached(command.status)},
		"kubeconfig": {0, 1, attached(command.kubeconfig)},
		"logs":       {1, 1, attached(command.logs)},
		"start":      {1, 1, steer((*stack.Stack).Start)},
		"stop":       {1, 1, steer((*stack.Stack).Stop)},
		"kill":       {1, 1, steer((*stack.Stack).Kill)},
		"pause":      {1, 1, steer((*stack.Stack).Pause)},
		"resume":     {1, 1, steer((*stack.Stack).Resume)},
		"restart": {1, -1, attached(func(c command, ctx context.Context, s *stack.Stack) error {
			return s.Restart(ctx, c.args[0], c.args[1:]...)
		})},
	}
}

// attached does something to the stack that runs in the command's directory.
func attached(do func(c command, ctx context.Context, s *stack.Stack) error) func(command, context.Context) error {
	return func(c command, ctx context.Context) error {
		s, err := stack.Attach(c.dir)
		if err != nil {
			return err
		}
		return do(c, ctx, s)
	}
}

// steer does something to one component.
func steer(do func(s *stack.Stack, ctx context.Context, component string) error) func(command, context.Context) error {
	return attached(func(c command, ctx context.Context, s *stack.Stack) error { return do(s, ctx, c.args[0]) })
}

// call refuses what nobody understands before it looks for a stack.
func (c command) call(ctx context.Context, name string) error {
	a, ok := actions()[name]
	switch {
	case !ok:
		return fmt.Errorf("%q: no such command: %w", name, errUsage)
	case len(c.args) < a.least:
		return fmt.Errorf("%s: which component? %w", name, errUsage)
	case a.most >= 0 && len(c.args) > a.most:
		return fmt.Errorf("%s: unexpected argument %q: %w", name, c.args[a.most], errUsage)
	}
	return a.do(c, ctx)
}

func (c command) build(ctx context.Context) error {
	bin, err := stack.Build(ctx, stack.BuildOptions{})
	if err != nil {
		return err
	}
	return c.print("%s\n", bin)
}

func (c command) up(ctx context.Context) error {
	flags := flag.NewFlagSet("up", flag.ContinueOnError)
	opts := stack.Options{Dir: c.dir}
	flags.BoolVar(&opts.Fsync, "fsync", false, "let etcd write durably")
	flags.BoolVar(&opts.KeepData, "keep", false, "let down keep the directory")
	flags.Func("without", "`components` not to start, separated by commas", func(list string) error {
		opts.Without = append(opts.Without, strings.Split(list, ",")...)
		return nil
	})
	if err := flags.Parse(c.args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("up: unexpected argument %q: %w", flags.Arg(0), errUsage)
	}
	s, err := stack.Up(ctx, opts)
	if err != nil {
		return err
	}
	return c.hints(s)
}

// hints prints what one needs next.
func (c command) hints(s *stack.Stack) error {
	kubeconfig, err := s.Kubeconfig(stack.Admin)
	if err != nil {
		return err
	}
	return c.print("export %s=%s KUBECONFIG=%s\n", stack.EnvDir, s.Dir(), kubeconfig)
}

func (c command) status(_ context.Context, s *stack.Stack) error {
	all, err := s.Status()
	if err != nil {
		return err
	}
	var memory int64
	for _, st := range all {
		memory += st.Memory
		if err := c.print("%-24s %-8s %8d %5d MiB  %s\n", st.Component, st.State, st.PID, st.Memory>>20, strings.Join(st.Flags, " ")); err != nil {
			return err
		}
	}
	return c.print("%d MiB in all\n", memory>>20)
}

func (c command) kubeconfig(_ context.Context, s *stack.Stack) error {
	user := stack.Admin
	if len(c.args) > 0 {
		user = c.args[0]
	}
	path, err := s.Kubeconfig(user)
	if err != nil {
		return err
	}
	return c.print("%s\n", path)
}

func (c command) logs(_ context.Context, s *stack.Stack) error {
	component := c.args[0]
	if !slices.Contains(stack.Components(), component) {
		return fmt.Errorf("%q: %w", component, stack.ErrComponent)
	}
	f, err := os.Open(s.LogPath(component))
	if err != nil {
		return err
	}
	_, err = io.Copy(c.out, f)
	return errors.Join(err, f.Close())
}

func (c command) print(format string, args ...any) error {
	_, err := fmt.Fprintf(c.out, format, args...)
	return err
}
