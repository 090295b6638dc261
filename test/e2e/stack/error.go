package stack

import (
	"errors"
	"fmt"
)

// Errors of this package, to be asked for with [errors.Is].
var (
	// ErrComponent says that no component has the name given.
	ErrComponent = errors.New("no such component")
	// ErrNotRunning says that a component has no process.
	ErrNotRunning = errors.New("not running")
	// ErrPaused says that a component is paused and can therefore not get healthy.
	ErrPaused = errors.New("paused")
	// ErrNoStack says that a directory holds no stack.
	ErrNoStack = errors.New("no stack")
)

// UnhealthyError says that a component was started and did not get healthy.
type UnhealthyError struct {
	Component string
	Log       string // the end of what it wrote
	Err       error  // what the last look at its health said, or that it ended
}

func (e *UnhealthyError) Error() string {
	return fmt.Sprintf("%s did not get healthy: %v; the end of its log:\n%s", e.Component, e.Err, e.Log)
}

// Unwrap returns the last look's error.
func (e *UnhealthyError) Unwrap() error { return e.Err }
