package stack

import (
	"os"
	"strconv"
	"strings"
)

// State says what a component's process does.
type State string

// The states of a component.
const (
	Running State = "running"
	Paused  State = "paused"
	Stopped State = "stopped" // never started, stopped or killed by us
	Ended   State = "ended"   // by itself
)

// Status is what a component does at a moment.
type Status struct {
	Component string
	State     State
	PID       int      // 0 when it has no process
	Memory    int64    // resident, bytes; 0 when it has no process
	Flags     []string // the extra ones
}

// Status returns what all components do, in the order in which they start. It returns the errors of the file system.
func (s *Stack) Status() ([]Status, error) {
	if s.isZero() {
		return nil, ErrNoStack
	}
	var all []Status
	for _, name := range Components() {
		r, err := s.readRecord(name)
		if err != nil {
			return nil, err
		}
		all = append(all, r.status(name))
	}
	return all, nil
}

func (r record) status(name string) Status {
	st := Status{Component: name, State: Running, PID: r.Process.PID, Flags: r.Flags}
	switch {
	case r.Process.ended() && r.Wanted:
		return Status{Component: name, State: Ended, Flags: r.Flags}
	case r.Process.ended():
		return Status{Component: name, State: Stopped, Flags: r.Flags}
	case r.Process.paused():
		st.State = Paused
	}
	st.Memory = residentBytes(st.PID)
	return st
}

// residentBytes is 0 for a process that has just gone.
func residentBytes(pid int) int64 {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(data))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
