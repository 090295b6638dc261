// Package e2e_test runs what the module promises on the real snapshot stack: test/e2e/run starts one and sets
// SHEETANCHOR_E2E. Without it every test is skipped.
package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sheetanchor/sheetanchor/test/e2e/app"
	"github.com/sheetanchor/sheetanchor/test/e2e/stack"
)

// root is the directory of the root module, from that of this one.
const root = "../.."

// bound is how long a test waits for anything, on a busy machine.
const bound = 5 * time.Minute

// sideBySide is how many tests run at once: they wait more than they work.
const sideBySide = 32

// fast are rates that a controller never reaches.
var fast = []string{"--kube-api-qps=200", "--kube-api-burst=400"}

// shared is what the tests of this package share. It is nil without a stack.
var shared *app.Cluster

// TestMain finds the stack.
func TestMain(m *testing.M) {
	dir := os.Getenv(stack.EnvDir)
	if dir == "" {
		goleak.VerifyTestMain(m)
	}
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(max(sideBySide, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	if err := attach(dir); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "find the stack:", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(closing{m})
}

// closing closes connections that tests share after the last one.
type closing struct{ m *testing.M }

func (c closing) Run() int {
	code := c.m.Run()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	if err := rates(ctx, nil); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "give the controllers their rates back:", err)
		code = max(code, 1)
	}
	closeConnections()
	shared.Close()
	shared.Stack.Driver().Close()
	return code
}

func attach(dir string) error {
	s, err := stack.Attach(dir)
	if err != nil {
		return err
	}
	shared, err = app.NewCluster(s)
	return err
}

// own are the stacks that tests have for themselves, by the name of the top test.
var own sync.Map

// cluster is the stack of the test: its own, or that of its top test, or the shared one. Without any the test is skipped.
func cluster(t *testing.T) *app.Cluster {
	t.Helper()
	if shared == nil {
		t.Skipf("%s is not set: use test/e2e/run", stack.EnvDir)
	}
	top, _, _ := strings.Cut(t.Name(), "/")
	if c, ok := own.Load(top); ok {
		return c.(*app.Cluster)
	}
	return shared
}

// ownStack gives a top test and its subtests a stack of their own, beside the others, with extra flags by component.
func ownStack(t *testing.T, flags map[string][]string) *app.Cluster {
	t.Helper()
	s, err := stack.Up(within(t, bound), stack.Options{Bin: cluster(t).Stack.Bin(), Flags: flags})
	must(t, err)
	c, err := app.NewCluster(s)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), bound)
		defer cancel()
		c.Close()
		s.Driver().Close()
		if err := s.Down(ctx); err != nil {
			t.Error(err)
		}
	})
	must(t, err)
	own.Store(t.Name(), c)
	return c
}

// The examples, each built once for all tests, beside the stack's data.
var (
	program        = sync.OnceValues(func() (string, error) { return buildExample("backup") })
	restoreProgram = sync.OnceValues(func() (string, error) { return buildExample("restore") })
)

func buildExample(name string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	return app.Build(ctx, root, shared.Stack.Dir(), name)
}

// exampleRoles are what the example of a backup needs.
var exampleRoles = filepath.Join(root, "examples", "backup", "rbac.yaml")

// exampleUsers are the users that have the example's roles, and no other.
var exampleUsers sync.Map

// application makes an application whose namespace begins with the name, and removes it after the test.
func application(t *testing.T, name string, spec app.Spec) *app.App {
	t.Helper()
	a := applicationAs(t, name, exampleRoles, spec)
	exampleUsers.Store(a.User, nil)
	return a
}

// applicationAs is application with other roles than the example's for its user.
func applicationAs(t *testing.T, name, roles string, spec app.Spec) *app.App {
	t.Helper()
	c := cluster(t)
	namespace := fmt.Sprintf("%s-%s", name, time.Now().Format("150405"))
	a, err := c.Create(t.Context(), namespace, roles, spec)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), bound)
		defer cancel()
		if err := a.Remove(ctx); err != nil {
			t.Error(err)
		}
	})
	must(t, err)
	return a
}

// backup is a backup of an application, with a store of its own.
func backup(t *testing.T, a *app.App) app.Backup {
	t.Helper()
	path, err := program()
	must(t, err)
	return app.Backup{Program: path, App: a, Name: "nightly", Store: t.TempDir()}
}

// turn is held by the test that keeps the machine busy on the shared stack: one at a time, while others wait for theirs.
var turn = make(chan struct{}, 1)

// busy lets a parallel top test share the stack and the machine only with tests that wait more than they work.
func busy(t *testing.T) {
	t.Helper()
	cluster(t)
	turn <- struct{}{}
	t.Cleanup(func() { <-turn })
}

// hurried are flags that lift the rates of the snapshot controllers, and let the sidecar ask often whether a snapshot is ready.
func hurried() map[string][]string {
	return map[string][]string{stack.SnapshotController: fast, stack.Snapshotter: append(slices.Clone(fast), "--retry-interval-max=4s")}
}

// rates gives the snapshot controllers of the shared stack these extra flags, none for nil, unless they have them. They stay until another
// test wants others; after the last test there are none.
func rates(ctx context.Context, flags map[string][]string) error {
	all, err := shared.Stack.Status()
	if err != nil {
		return err
	}
	for _, now := range all {
		controller := now.Component == stack.SnapshotController || now.Component == stack.Snapshotter
		if controller && !slices.Equal(now.Flags, flags[now.Component]) {
			if err := shared.Stack.Restart(ctx, now.Component, flags[now.Component]...); err != nil {
				return err
			}
		}
	}
	return nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// within is the test's context with a bound.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
