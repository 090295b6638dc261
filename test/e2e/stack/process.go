package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// processPoll is how often a process is looked at that should end.
const processPoll = 10 * time.Millisecond

// process names one process of one boot of the machine: numbers are used again, start times in one boot are not.
type process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // ticks since the boot
	Boot  string `json:"boot"`
}

// startProcess starts a program in a session of its own, so that a Ctrl-C for us does not reach it, with its output
// appended to a file.
func startProcess(program, dir, log string, args []string) (_ process, err error) {
	out, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return process{}, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err := fmt.Fprintf(out, "--- %s %s\n", filepath.Base(program), strings.Join(args, " ")); err != nil {
		return process{}, err
	}
	cmd := exec.Command(program, args...) //nolint:noctx // it outlives the call
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return process{}, err
	}
	pid := cmd.Process.Pid
	now, err := lookProcess(pid)
	if err != nil {
		return process{}, errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	return now.process, cmd.Process.Release() // ended waits for it by its number
}

// procStat is what the system says of a process at a moment.
type procStat struct {
	process

	state   byte // R, S, T, Z and others
	threads int  // with the first one, also when that has ended already
}

// lookProcess reads what the process with a number is now.
func lookProcess(pid int) (procStat, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return procStat{}, err
	}
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return procStat{}, err
	}
	p, err := parseStat(string(data))
	p.PID, p.Boot = pid, strings.TrimSpace(string(boot))
	return p, err
}

// parseStat reads a line of /proc/PID/stat. The second field, the name in parentheses, may hold anything, so that fields
// are counted from its end.
func parseStat(line string) (procStat, error) {
	end := strings.LastIndexByte(line, ')')
	if end < 0 {
		return procStat{}, fmt.Errorf("a process has no name: %q", line)
	}
	fields := strings.Fields(line[end+1:])
	const state, threads, startTime = 0, 17, 19 // of what comes after the name
	if len(fields) <= startTime {
		return procStat{}, fmt.Errorf("a process has %d fields: %q", len(fields), line)
	}
	p := procStat{state: fields[state][0]}
	var errThreads, errStart error
	p.threads, errThreads = strconv.Atoi(fields[threads])
	p.Start, errStart = strconv.ParseUint(fields[startTime], 10, 64)
	return p, errors.Join(errThreads, errStart)
}

// ended reports whether the process is gone, with all its threads: what they hold open is closed then. A child of ours
// is waited for, so that it leaves the table.
func (p process) ended() bool {
	if p.PID <= 0 {
		return true
	}
	now, err := lookProcess(p.PID)
	if err != nil || now.process != p {
		return true
	}
	if now.state != 'Z' && now.state != 'X' || now.threads > 1 {
		return false
	}
	// ECHILD says that it is somebody else's child, who will wait for it.
	_, _ = syscall.Wait4(p.PID, nil, syscall.WNOHANG, nil)
	return true
}

// paused reports whether the process is stopped by a signal.
func (p process) paused() bool {
	now, err := lookProcess(p.PID)
	return err == nil && now.process == p && now.state == 'T'
}

// signal sends sig to this very process: the handle is taken before the start time is compared. It returns
// [ErrNotRunning] when the process is gone.
func (p process) signal(sig syscall.Signal) error {
	if p.PID <= 0 {
		return ErrNotRunning
	}
	handle, err := os.FindProcess(p.PID)
	if err != nil {
		return errors.Join(ErrNotRunning, err)
	}
	if p.ended() {
		return errors.Join(ErrNotRunning, handle.Release())
	}
	err = handle.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		err = ErrNotRunning
	}
	return errors.Join(err, handle.Release())
}

// end ends the process: SIGTERM, and SIGKILL when it has not ended after grace or at the end of ctx. It returns nil
// when the process is gone.
func (p process) end(ctx context.Context, grace time.Duration) error {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT} {
		if err := p.signal(sig); errors.Is(err, ErrNotRunning) {
			return nil
		} else if err != nil {
			return err
		}
	}
	if p.awaitEnd(ctx, grace) == nil {
		return nil
	}
	return p.kill(ctx)
}

// kill ends the process by SIGKILL. It returns nil when the process is gone.
func (p process) kill(ctx context.Context) error {
	if err := p.signal(syscall.SIGKILL); err != nil && !errors.Is(err, ErrNotRunning) {
		return err
	}
	return p.awaitEnd(context.WithoutCancel(ctx), killGrace)
}

// killGrace is how long the kernel may take to end a killed process.
const killGrace = 10 * time.Second

func (p process) awaitEnd(ctx context.Context, limit time.Duration) error {
	err := wait.PollUntilContextTimeout(ctx, processPoll, limit, true, func(context.Context) (bool, error) {
		return p.ended(), nil
	})
	if err != nil {
		return fmt.Errorf("process %d has not ended: %w", p.PID, err)
	}
	return nil
}
