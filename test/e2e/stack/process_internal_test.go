package stack

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// sleeper starts a process that does nothing.
func sleeper(t *testing.T) process {
	t.Helper()
	program, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	p, err := startProcess(program, t.TempDir(), filepath.Join(t.TempDir(), "log"), []string{"600"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.kill(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestProcessIsItsStartTime(t *testing.T) {
	t.Parallel()
	p := sleeper(t)
	for reason, other := range map[string]process{
		"started later":           {PID: p.PID, Start: p.Start + 1, Boot: p.Boot},
		"of a boot before":        {PID: p.PID, Start: p.Start, Boot: "another"},
		"of a number nobody has":  {PID: 1 << 30, Start: p.Start, Boot: p.Boot},
		"the zero process":        {},
		"a number of all of them": {PID: -1, Start: p.Start, Boot: p.Boot},
	} {
		if !other.ended() || other.paused() {
			t.Errorf("%s: it has not ended, or is paused", reason)
		}
		if err := other.signal(syscall.SIGKILL); !errors.Is(err, ErrNotRunning) {
			t.Errorf("%s: signal = %v, want ErrNotRunning", reason, err)
		}
		if err := errors.Join(other.end(t.Context(), time.Minute), other.kill(t.Context())); err != nil {
			t.Errorf("%s: end and kill = %v, want nil for what is gone", reason, err)
		}
	}
	if p.ended() {
		t.Error("the process that has the number now was ended")
	}
}

func TestProcessEnds(t *testing.T) {
	t.Parallel()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for reason, end := range map[string]func(process) error{
		"SIGTERM":                 func(p process) error { return p.end(t.Context(), time.Minute) },
		"SIGKILL":                 func(p process) error { return p.kill(t.Context()) },
		"SIGTERM while paused":    func(p process) error { return errors.Join(p.signal(syscall.SIGSTOP), p.end(t.Context(), time.Minute)) },
		"SIGKILL while paused":    func(p process) error { return errors.Join(p.signal(syscall.SIGSTOP), p.kill(t.Context())) },
		"at the end of a context": func(p process) error { return p.end(canceled, time.Minute) },
	} {
		p := sleeper(t)
		if err := end(p); err != nil || !p.ended() {
			t.Errorf("%s: %v, ended is %v", reason, err, p.ended())
		}
		if _, err := os.Stat(filepath.Join("/proc", itoa(p.PID))); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: it is still in the table: %v", reason, err)
		}
	}
}

func TestProcessThatIgnoresSIGTERM(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	p, err := startProcess("/bin/sh", t.TempDir(), log, []string{"-c", `trap "" TERM; echo ready; exec sleep 600`})
	if err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(t.Context(), processPoll, time.Minute, true, func(context.Context) (bool, error) {
		return strings.Contains(tail(log), "\nready"), nil
	})
	if err != nil {
		t.Fatalf("%v: %s", err, tail(log))
	}
	if err := p.end(t.Context(), 50*time.Millisecond); err != nil || !p.ended() {
		t.Errorf("end = %v, want it killed after the grace", err)
	}
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	const rest = " 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 12 0 987654 1 1"
	for reason, line := range map[string]string{
		"a plain name":                     "7 (etcd) S" + rest,
		"a name with spaces and a bracket": "7 (a) b) Z (c) S" + rest,
	} {
		p, err := parseStat(line)
		if err != nil || p.state != 'S' || p.threads != 12 || p.Start != 987654 {
			t.Errorf("%s: %+v, %v", reason, p, err)
		}
	}
	for reason, line := range map[string]string{
		"nothing":         "",
		"a short line":    "7 (etcd) S 1 7",
		"no name":         "7 S" + rest,
		"no number there": "7 (etcd) S" + strings.Replace(rest, "987654", "x", 1),
	} {
		if p, err := parseStat(line); err == nil {
			t.Errorf("%s: %+v, want an error", reason, p)
		}
	}
}
