package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/sheetanchor/sheetanchor/test/e2e/stack"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What nobody understands is refused before anything is built, started or looked for.
func TestRunRefuses(t *testing.T) {
	cache := filepath.Join(t.TempDir(), "cache")
	t.Setenv(stack.EnvCache, cache)
	dir := t.TempDir()
	cases := map[string]struct {
		reason string
		args   []string
		want   string
		is     error
	}{
		"nothing":                {"there is no default", nil, "no command", errUsage},
		"an unknown command":     {"that no stack runs is not what is wrong", []string{"frob"}, `"frob": no such command`, errUsage},
		"an unknown flag":        {"it must not be passed over", []string{"-frob"}, "-frob", nil},
		"no component":           {"each of these steers one", []string{"pause"}, "which component?", errUsage},
		"two components":         {"the second would be passed over", []string{"stop", "etcd", "driver"}, `unexpected argument "driver"`, errUsage},
		"an argument to down":    {"it is not another directory", []string{"down", "/x"}, `unexpected argument "/x"`, errUsage},
		"an argument to up":      {"it is not the directory", []string{"up", "/x"}, `unexpected argument "/x"`, errUsage},
		"an unknown flag of up":  {"it must not be passed over", []string{"up", "-sync"}, "-sync", nil},
		"no such component":      {"nothing is built for it", []string{"up", "-without", "proxy"}, `"proxy"`, stack.ErrComponent},
		"no stack":               {"there is nothing to look at", []string{"status"}, dir, stack.ErrNoStack},
		"a directory too long":   {"it holds sockets", []string{"-dir", "/" + strings.Repeat("x", 80), "up"}, "more than 80", nil},
		"a directory with files": {"they are somebody's", []string{"-dir", ".", "up"}, "not empty", os.ErrExist},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := run(t.Context(), append([]string{"-dir", dir}, tc.args...), &out)
			if err == nil || !strings.Contains(err.Error(), tc.want) || tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("%s: run(%q) = %v, want %v with %q", tc.reason, tc.args, err, tc.is, tc.want)
			}
			if out.Len() > 0 {
				t.Errorf("run(%q) printed %q", tc.args, out.String())
			}
		})
	}
	if _, err := os.Stat(cache); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Stat of the cache of programs = %v, want that nothing was built", err)
	}
}

// Help is no error.
func TestHelp(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-h"}, {"up", "-h"}} {
		if err := run(t.Context(), args, &bytes.Buffer{}); err != nil {
			t.Errorf("run(%q) = %v, want nil", args, err)
		}
	}
}

// After a failed test one reads which component died and what it said.
func TestPost(t *testing.T) {
	t.Parallel()
	all := []stack.Status{
		{Component: stack.Etcd, State: stack.Running},
		{Component: stack.Driver, State: stack.Ended},
		{Component: stack.Snapshotter, State: stack.Stopped},
	}
	var out bytes.Buffer
	err := command{out: &out}.post(all, func(component string) string { return "log of " + component })
	if err == nil || err.Error() != "driver ended by itself; its log is above" {
		t.Errorf("post = %v, want that the driver ended by itself, and nothing else", err)
	}
	for _, want := range []string{"etcd is running", "log of etcd", "driver is ended", "log of driver", "csi-snapshotter is stopped"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("post printed %q, want %q", out.String(), want)
		}
	}
	if err := (command{out: &out}).post(all[:1], func(string) string { return "" }); err != nil {
		t.Errorf("post of what runs = %v", err)
	}
}
