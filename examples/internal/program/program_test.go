package program_test

import (
	"context"
	"errors"
	"flag"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/sheetanchor/sheetanchor/examples/internal/program"
	"github.com/sheetanchor/sheetanchor/phase"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestExit(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		code int
		line string
	}{
		"none":     {nil, 7, ""},
		"help":     {flag.ErrHelp, program.ExitCompleted, ""},
		"an error": {errors.New("first\nsecond"), program.ExitOther, "demo: first; second\n"},
	} {
		var stderr strings.Builder
		if code := program.Exit("demo", &stderr, 7, tc.err); code != tc.code || stderr.String() != tc.line {
			t.Errorf("%s: exit %d, %q, want %d and %q", name, code, stderr.String(), tc.code, tc.line)
		}
	}
	for ended, want := range map[string]int{phase.Completed: 0, phase.PartiallyFailed: 2, phase.Failed: 1, "": 1} {
		if got := program.ExitCode(ended); got != want {
			t.Errorf("phase %q: exit %d, want %d", ended, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{"-x a=b": "", "-x a=": "want KEY=VALUE", "-x a=b -x a=c": "a is given twice, as b and c", "-y": "-y", "more": `unexpected argument "more"`, "-h": flag.ErrHelp.Error()} {
		all := map[string]string{}
		flags := program.Flags("demo")
		flags.Func("x", "", program.Pair("KEY=VALUE", all))
		var stderr strings.Builder
		err := program.Parse(flags, strings.Fields(args), &stderr)
		if want == "" && (err != nil || all["a"] != "b") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: error %v, pairs %v, want %q", args, err, all, want)
		}
		if usage := strings.HasPrefix(stderr.String(), "usage: demo"); usage != (args == "-h") {
			t.Errorf("%s: printed %q", args, stderr.String())
		}
	}
}

// A step that fails is tried again a few times, one that cannot be mended is not, and a pause ends with the context.
func TestRunToEnd(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		errs  []error // of each step; the last one is repeated
		done  int     // the step that is done; 0: none
		steps int
		want  error
	}{
		"pauses":         {[]error{nil}, 3, 3, nil},
		"fails twice":    {[]error{broken, broken, nil}, 4, 4, nil},
		"fails for good": {[]error{broken}, 0, 6, broken},
		"foreign record": {[]error{phase.ErrForeignRecord}, 0, 1, phase.ErrForeignRecord},
		"ended":          {[]error{nil}, 0, 3, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if errors.Is(tc.want, context.DeadlineExceeded) {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, 25*time.Second)
					defer cancel()
				}
				steps := 0
				err := program.RunToEnd(ctx, func(context.Context) (bool, time.Duration, error) {
					steps++
					return steps == tc.done, 10 * time.Second, tc.errs[min(steps, len(tc.errs))-1]
				})
				if !errors.Is(err, tc.want) || steps != tc.steps {
					t.Errorf("%d steps, error %v, want %d and %v", steps, err, tc.steps, tc.want)
				}
			})
		})
	}
}
