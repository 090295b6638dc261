package finalize_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/finalize"
)

// F1: a cycle, an unknown or doubled name is an error at construction that names it.
func TestNewRefuses(t *testing.T) {
	t.Parallel()
	hook := func(name string, after ...string) finalize.Hook {
		return finalize.Hook{Name: name, After: after, Run: ok}
	}
	for name, tc := range map[string]struct {
		reason string
		hooks  []finalize.Hook
		opts   finalize.Options
		want   error
		texts  []string
	}{
		"cycle": {
			"nothing could start",
			[]finalize.Hook{hook("a"), hook("b", "d"), hook("c", "b"), hook("d", "a", "c")},
			finalize.Options{},
			finalize.ErrCycle,
			[]string{`"b"`, "b after d after c after b"},
		},
		"cycle over Needs": {
			"needing is coming after",
			[]finalize.Hook{{Name: "a", Needs: []string{"b"}, Run: ok}, hook("b", "a")},
			finalize.Options{},
			finalize.ErrCycle,
			[]string{"a after b after a"},
		},
		"itself": {"the shortest cycle", []finalize.Hook{hook("a", "a")}, finalize.Options{}, finalize.ErrCycle, []string{"a after a"}},
		"unknown": {
			"a misspelt name would be an order that is not kept",
			[]finalize.Hook{hook("a", "reelase")},
			finalize.Options{},
			finalize.ErrInvalid,
			[]string{`"a"`, "After", `"reelase"`},
		},
		"double": {"checkpoints are kept by name", []finalize.Hook{hook("a"), hook("a")}, finalize.Options{}, finalize.ErrInvalid, []string{`"a"`, "twice"}},
		"everything": {
			"all faults at once",
			[]finalize.Hook{{Timeout: -1, Retries: -1, OnFailure: 9}},
			finalize.Options{Parallelism: -1, MaxTotal: -1, Grace: -1, StoreTimeout: -1},
			finalize.ErrInvalid,
			[]string{"Name is empty", "Run is nil", "Timeout", "Retries", "OnFailure", "Parallelism", "MaxTotal", "Grace", "StoreTimeout"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := finalize.New(tc.hooks, tc.opts)
			if r != nil || !errors.Is(err, tc.want) || !errors.Is(err, finalize.ErrInvalid) {
				t.Fatalf("%s: New = %v, %v, want %v", tc.reason, r, err, tc.want)
			}
			if _, ok := errors.AsType[*finalize.HookError](err); !ok {
				t.Errorf("New = %v, want a HookError", err)
			}
			for _, text := range tc.texts {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("New = %q, want it to say %q", err, text)
				}
			}
		})
	}
}

// F1: the order of the report depends on the definitions alone.
func TestOrderIsDeterministic(t *testing.T) {
	t.Parallel()
	hooks := []finalize.Hook{
		{Name: "last", After: []string{"release", "update"}, Run: ok},
		{Name: "update", Needs: []string{"wait"}, Run: ok},
		{Name: "release", Run: ok},
		{Name: "wait", Run: ok},
	}
	for range 50 {
		report, err := mustNew(t, hooks, finalize.Options{}).Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, h := range report.Hooks {
			got = append(got, h.Name)
		}
		if diff := cmp.Diff([]string{"release", "wait", "update", "last"}, got); diff != "" {
			t.Fatalf("order (-want +got):\n%s", diff)
		}
	}
}

func TestLaterAndItemTexts(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"later, in 2s: pv not bound": finalize.Later(2*time.Second, "pv not bound"),
		"later, in 1s: x":            finalize.Later(0, "x"),
		"app/data: gone":             finalize.Item("app", "data", errors.New("gone")),
		"pv-1: gone":                 finalize.Item("", "pv-1", errors.New("gone")),
		"warning: app/data: gone":    finalize.Warning(finalize.Item("app", "data", errors.New("gone"))),
	} {
		if err.Error() != want {
			t.Errorf("text = %q, want %q", err, want)
		}
	}
	if finalize.Item("a", "b", nil) != nil || finalize.Warning(nil) != nil {
		t.Error("no error became one")
	}
}
