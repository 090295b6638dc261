package podexec

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/exec"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// stderrLimit is how many bytes of the end of a command's standard error an error carries.
const stderrLimit = 1024

// ExitError is a command that ran and failed.
type ExitError struct {
	Pod       csisnapshot.PodRef
	Container string
	Command   []string
	// Code is the exit code.
	Code int
	// Stderr is the end of what the command wrote to its standard error, at most 1 KiB, trimmed.
	Stderr string
}

// Error names the command, where it ran, its exit code and what it wrote.
func (e *ExitError) Error() string {
	text := fmt.Sprintf("command %q in pod %s, container %s: exit code %d", e.Command, e.Pod, e.Container, e.Code)
	if e.Stderr != "" {
		text += ": " + e.Stderr
	}
	return text
}

// outcome is the error of a command that ended so; nil for nil.
func outcome(pod csisnapshot.PodRef, hook csisnapshot.Hook, stderr string, err error) error {
	switch {
	case err == nil:
		return nil
	case unsent(err) && !apierrors.IsForbidden(err):
		return fmt.Errorf("%w: %w", csisnapshot.ErrNotRun, exitError(pod, hook, stderr, err))
	default:
		return exitError(pod, hook, stderr, err)
	}
}

// exitError makes an error of how a command ended.
func exitError(pod csisnapshot.PodRef, hook csisnapshot.Hook, stderr string, err error) error {
	if exit, ok := errors.AsType[exec.ExitError](err); ok && exit.Exited() {
		return &ExitError{
			Pod: pod, Container: hook.Container, Command: hook.Command, Code: exit.ExitStatus(), Stderr: stderr,
		}
	}
	if stderr != "" {
		return fmt.Errorf("exec in pod %s: %w: %s", pod, err, stderr)
	}
	return fmt.Errorf("exec in pod %s: %w", pod, err)
}

// tail is a writer that keeps the last bytes written. It is safe for concurrent use: a stream that outlives its call may
// still write.
type tail struct {
	limit int

	mu   sync.Mutex // protects data
	data []byte
}

// Write keeps the last limit bytes and never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p...)
	if over := len(t.data) - t.limit; over > 0 {
		t.data = append(t.data[:0], t.data[over:]...)
	}
	return len(p), nil
}

// String returns what was kept, as valid text without surrounding space.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(t.data), "?"))
}

// discard is a writer that drops everything.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
