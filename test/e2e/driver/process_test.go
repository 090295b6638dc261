package driver_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/sheetanchor/sheetanchor/test/e2e/driver"
	"google.golang.org/grpc/codes"
)

// child is a driver in a process of its own.
type child struct {
	*fixture
	cmd    *exec.Cmd
	stderr *bytes.Buffer
}

func startChild(t *testing.T, dir string) *child {
	t.Helper()
	c := &child{stderr: &bytes.Buffer{}}
	c.cmd = exec.CommandContext(t.Context(), must[string](t)(os.Executable()))
	c.cmd.Env = append(os.Environ(), childDir+"="+dir)
	c.cmd.Stderr = c.stderr
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.fixture = connect(t, optionsIn(dir))
	c.await(t)
	return c
}

// end sends a signal and returns what the process ended with.
func (c *child) end(t *testing.T, sig syscall.Signal) error {
	t.Helper()
	if err := c.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	return c.cmd.Wait()
}

// load takes snapshots one after the other, with names of its own, and keeps those that were answered, until the driver is gone.
type load struct {
	mu       sync.Mutex // guards answered
	answered map[string]*csi.Snapshot
}

func (l *load) run(ctx context.Context, client csi.ControllerClient, prefix, volume string) {
	for i := 0; ; i++ {
		name := fmt.Sprintf("%s-%d", prefix, i)
		resp, err := client.CreateSnapshot(ctx, snapshotRequest(name, volume))
		if err != nil {
			return
		}
		l.mu.Lock()
		l.answered[name] = resp.GetSnapshot()
		l.mu.Unlock()
	}
}

// Killed at any moment, the driver holds what it answered; what was under way is taken once, however often it is asked for.
func TestKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := startChild(t, dir)
	volume := c.volume(t, "app/data")
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the moments are to be the same at each run
	l := &load{answered: map[string]*csi.Snapshot{}}
	for round := range 4 {
		var callers sync.WaitGroup
		for worker := range 4 {
			callers.Go(func() { l.run(t.Context(), c, fmt.Sprintf("r%d-w%d", round, worker), volume) })
		}
		calls := len(must[[]driver.Call](t)(c.Calls(t.Context(), driver.CallFilter{})))
		must[[]driver.Call](t)(c.WaitCalls(t.Context(), driver.CallFilter{}, calls+20+random.IntN(40)))
		if err := c.end(t, syscall.SIGKILL); err == nil {
			t.Fatal("the killed process ended well")
		}
		callers.Wait()
		c = startChild(t, dir)
		checkKilled(t, c.fixture, l.answered)
	}
	if err := c.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("ended by SIGTERM: %v\n%s", err, c.stderr)
	}
}

// checkKilled asks again for what was answered and for what was begun.
func checkKilled(t *testing.T, f *fixture, answered map[string]*csi.Snapshot) {
	t.Helper()
	held := map[string]driver.Snapshot{}
	for _, s := range must[[]driver.Snapshot](t)(f.Snapshots(t.Context())) {
		held[s.Name] = s
	}
	for name, s := range answered {
		got, found := held[name]
		if !found || got.ID != s.GetSnapshotId() || !got.CutAt.Equal(s.GetCreationTime().AsTime()) || got.VolumeSnapshot != "app/vs-"+name {
			t.Errorf("%s after the kill = %+v, want what was answered: %v", name, got, s)
		}
	}
	volume := f.volume(t, "app/data")
	for _, call := range must[[]driver.Call](t)(f.Calls(t.Context(), driver.CallFilter{Method: "CreateSnapshot", Code: driver.Unanswered})) {
		f.snapshot(t, call.Name, volume)
	}
	byName := map[string]int{}
	for _, cut := range must[[]driver.Cut](t)(f.Cuts(t.Context(), "app/data")) {
		byName[cut.Name]++
		if byName[cut.Name] > 1 || !cut.Held {
			t.Errorf("cut = %+v, want one of its name, held", cut)
		}
	}
	if held := must[[]driver.Snapshot](t)(f.Snapshots(t.Context())); len(held) != len(byName) {
		t.Errorf("%d snapshots are held, want the %d that were cut", len(held), len(byName))
	}
}

// SIGTERM ends calls that are under way, and the process with code 0 and without its sockets.
func TestTerminate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := startChild(t, dir)
	volume := c.volume(t, "app/data")
	c.script(t, "app/data", driver.Script{HangCreate: true})
	called := make(chan error, 1)
	go func() {
		_, err := c.CreateSnapshot(t.Context(), snapshotRequest("s", volume))
		called <- err
	}()
	polled := make(chan error, 1)
	must[[]driver.Call](t)(c.WaitCalls(t.Context(), driver.CallFilter{Method: "CreateSnapshot"}, 1))
	go func() {
		_, err := c.WaitCalls(t.Context(), driver.CallFilter{}, 1000)
		polled <- err
	}()
	if err := c.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("ended by SIGTERM: %v\n%s", err, c.stderr)
	}
	if err := <-called; codeOf(err) != codes.Unavailable && codeOf(err) != codes.Canceled {
		t.Errorf("the call = %v, want Unavailable or Canceled", err)
	}
	if err := <-polled; err == nil || !strings.Contains(err.Error(), "wait for 1000 calls") {
		t.Errorf("WaitCalls() = %v, want an error that names the operation", err)
	}
	if got := c.stderr.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `CreateSnapshot name="s"`) {
		t.Errorf("stderr = %q, want one line for the call", got)
	}
	for _, socket := range []string{"csi", "ctl"} {
		if _, err := os.Lstat(dir + "/" + socket); !os.IsNotExist(err) {
			t.Errorf("socket %s: %v, want it gone", socket, err)
		}
	}
	after := startChild(t, dir)
	call := must[[]driver.Call](t)(after.Calls(t.Context(), driver.CallFilter{Method: "CreateSnapshot"}))[0]
	if call.Code != codes.Canceled.String() {
		t.Errorf("the call in the log = %+v, want Canceled", call)
	}
	if err := after.end(t, syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}
