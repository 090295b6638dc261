package backuptest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/operations"
)

func wantError(t *testing.T, what string, err error, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s = %v, want an error that says %q", what, err, text)
		}
	}
}

// B3: nothing passes that has an ended context: a thaw with one thaws nothing, as an exec with one reaches no pod.
func TestEndedContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	over := errors.New("over")
	cancel(over)

	var hooks backuptest.HookLog
	if err := hooks.Run(t.Context(), backuptest.HookCall{Pod: "app/a", Kind: backuptest.HookFreeze}); err != nil {
		t.Fatal(err)
	}
	if err := hooks.Run(ctx, backuptest.HookCall{Pod: "app/a", Kind: backuptest.HookThaw}); !errors.Is(err, over) {
		t.Errorf("thaw = %v, want the cause", err)
	}
	if frozen := hooks.Frozen(); len(frozen) != 1 {
		t.Errorf("frozen %v, want the pod still", frozen)
	}
	if err := hooks.Run(ctx, backuptest.HookCall{Pod: "app/b", Kind: backuptest.HookFreeze}); !errors.Is(err, over) || len(hooks.Frozen()) != 1 || len(hooks.Runs()) != 1 {
		t.Errorf("freeze = %v, frozen %v, want that the hook did not run", err, hooks.Frozen())
	}

	store := backuptest.NewStore[int](heedless{})
	if _, _, err := store.Read(ctx, "a"); !errors.Is(err, over) {
		t.Errorf("read = %v, want the cause", err)
	}
	if _, err := store.Write(ctx, "a", nil, ""); !errors.Is(err, over) {
		t.Errorf("write = %v, want the cause", err)
	}
}

// heedless is a store that minds no context.
type heedless struct{}

func (heedless) Read(context.Context, string) ([]byte, string, error) { return nil, "1", nil }

func (heedless) Write(context.Context, string, []byte, string) (string, error) { return "1", nil }

func (heedless) Capabilities() int { return 7 }

// B3: a fault of a store that could never act is told to whoever uses the store, until it is removed.
func TestWrongStoreFaults(t *testing.T) {
	t.Parallel()
	for want, fault := range map[string]backuptest.StoreFault{
		"Op":              {Op: "list", Action: backuptest.StoreFail},
		"Nth: -1":         {Nth: -1, Action: backuptest.StoreFail},
		"Times: -1":       {Times: -1, Action: backuptest.StoreFail},
		"Latency: -1s":    {Latency: -time.Second},
		"Action: 99":      {Action: 99},
		"Action: it tear": {Op: "write", Action: backuptest.StoreTear},
	} {
		store := backuptest.NewStore(operations.NewMemoryStore())
		remove := store.Fault(fault)
		_, err := store.Write(t.Context(), "a", nil, "")
		wantError(t, "Write", err, "set store fault", want)
		_, _, err = store.Read(t.Context(), "a")
		wantError(t, "Read", err, "set store fault", want)
		remove()
		if _, err := store.Write(t.Context(), "a", nil, ""); err != nil {
			t.Errorf("%s: Write after the fault's end = %v", want, err)
		}
	}
	none := backuptest.NewStore[int](nil)
	_, _, err := none.Read(t.Context(), "a")
	wantError(t, "Read", err, "nil")
	_, err = none.Write(t.Context(), "a", nil, "")
	wantError(t, "Write", err, "nil")
	if c := none.Capabilities(); c != 0 {
		t.Errorf("Capabilities = %v of no store", c)
	}
}

// B3: hooks without the functions that tell of them are errors.
func TestHooksWithoutFunctions(t *testing.T) {
	t.Parallel()
	hooks := backuptest.NewHooks[int, int, int](nil, nil)
	_, err := hooks.Hooks(&corev1.Pod{})
	wantError(t, "Hooks", err, "NewHooks")
	wantError(t, "Exec", hooks.Exec(t.Context(), 1, 1), "NewHooks")
}

// B3: a crash test of troubles that there are not tests nothing, and says so.
func TestWrongTroubles(t *testing.T) {
	t.Parallel()
	life := func(ctx context.Context, p *backuptest.Process) error {
		return p.Do(ctx, "write", func(context.Context) error { return nil })
	}
	runs := 0
	for crash := range backuptest.EachCrash(backuptest.CrashAfter, 0, 55) {
		runs++
		switch err := crash.Run(t.Context(), life); runs {
		case 2:
			wantError(t, crash.String(), err, "zero trouble")
		case 3:
			wantError(t, crash.String(), err, "process 1: trouble of effect 1: 55 is unknown")
		}
	}
	if runs != 6 {
		t.Errorf("%d runs, want each kind for effects 1 and 2", runs)
	}
	if err := backuptest.NewCrash(map[int]backuptest.Trouble{0: backuptest.CrashAfter}).Run(t.Context(), life); err != nil {
		t.Errorf("Run = %v, want that no effect is the one before the first", err)
	}
	wantError(t, "no program", backuptest.NewCrash().Run(t.Context(), nil), "nil")

	ctx, p := backuptest.NewProcess(t.Context(), map[int]backuptest.Trouble{7: 99})
	defer p.Kill()
	done := false
	wantError(t, "Do", p.Do(ctx, "write", func(context.Context) error { done = true; return nil }), "effect 7: 99 is unknown")
	if done {
		t.Error("the effect happened")
	}
	ctx, p = backuptest.NewProcess(t.Context(), nil)
	wantError(t, "Do", p.Do(ctx, "upload", nil), `"upload"`, "nil")
	p.Kill()
}
