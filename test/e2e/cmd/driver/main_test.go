package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What is wrong with the flags is told, and nothing is served.
func TestRunRefuses(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		args   []string
		want   []string
	}{
		"no flag":         {"all are needed but the name", nil, []string{"Endpoint:", "Control:", "State must be given"}},
		"no name":         {"the sidecars ask for it", []string{"-name", ""}, []string{"Name must be given"}},
		"an unknown flag": {"a misspelt flag must not be passed over", []string{"-stat", "x"}, []string{"flag provided but not defined: -stat"}},
		"an argument":     {"a flag without its dash must not be passed over", []string{"-name", "x", "state", "y"}, []string{`unexpected argument "state"`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := run(t.Context(), tc.args)
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: run(%q) = %v, want an error with %q", tc.reason, tc.args, err, want)
				}
			}
		})
	}
}

// Each flag sets its field; the end of the context is no error.
func TestRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{
			"-endpoint", "unix://" + filepath.Join(dir, "csi"), "-control", "unix://" + filepath.Join(dir, "ctl"), "-state", filepath.Join(dir, "state"),
		})
	}()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("run = %v, want nil", err)
	}
}
