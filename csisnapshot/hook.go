package csisnapshot

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// DefaultHookTimeout bounds a hook whose Timeout is zero.
const DefaultHookTimeout = 30 * time.Second

// OnError says what a failed hook means for the volumes of its pod.
type OnError uint8

const (
	// OnErrorFail ends the pod's remaining pre hooks and takes no snapshot of its volumes. It is the zero value.
	// A post hook that fails this way leaves the pod's freeze intent open, so that the next Cut thaws it again.
	OnErrorFail OnError = iota
	// OnErrorContinue records the error and goes on as if the hook had succeeded.
	OnErrorContinue
)

// String returns "Fail" or "Continue".
func (o OnError) String() string {
	if o == OnErrorContinue {
		return "Continue"
	}
	return "Fail"
}

// Hook is one command run in a container of a pod before or after its volumes are cut.
//
// A hook must be idempotent: over a crash of the calling process a hook may run again, and a post hook may run in a pod
// whose pre hook never did.
type Hook struct {
	// Name is shown in errors and reports. Empty: the command's first word is shown instead.
	Name string
	// Container is the container the command runs in. Empty: the pod's first container.
	Container string
	// Command is the program and its arguments. It is passed on as it is; no shell is involved.
	Command []string
	// Timeout bounds one run. Zero means DefaultHookTimeout.
	Timeout time.Duration
	// OnError says what a failure means. The zero value is OnErrorFail.
	OnError OnError
}

// title is the name to show for the hook.
func (h Hook) title() string {
	switch {
	case h.Name != "":
		return h.Name
	case len(h.Command) > 0:
		return h.Command[0]
	default:
		return "hook"
	}
}

// limit is the hook's timeout with the default filled in.
func (h Hook) limit() time.Duration {
	if h.Timeout > 0 {
		return h.Timeout
	}
	return DefaultHookTimeout
}

// PodHooks are the hooks of one pod, each list in the order in which it runs.
// A pod without pre hooks and without post hooks is unhooked; one that has either counts as frozen while its batch is cut.
type PodHooks struct {
	Pre, Post []Hook
}

// Empty reports whether there is no hook at all.
func (h PodHooks) Empty() bool { return len(h.Pre) == 0 && len(h.Post) == 0 }

// PodRef names one incarnation of a pod.
type PodRef struct {
	Namespace, Name string
	UID             types.UID
}

// String returns namespace/name.
func (p PodRef) String() string { return p.Namespace + "/" + p.Name }

// ErrNotRun is what a [Quiescer] wraps to say that a command was certainly not run, for a reason that may pass: nobody has got
// it. A post hook is tried again then, each time within its timeout, until it is run, [WaitOptions.Timeout] is over or the
// context of the Cut has ended. A pre hook is not.
var ErrNotRun = errors.New("the command was not run")

// Quiescer finds and runs the hooks of a pod. Sub-package podexec has the one that reads Velero's annotations and runs
// commands through the API server.
//
// Both methods may be called from several goroutines at once. Hooks must be pure: it is called when planning, again
// before a freeze, and again when a pod left frozen by an earlier process is thawed. Exec must return when ctx ends; a
// call that does not is abandoned after a grace time, named in the report, and its late result is dropped.
type Quiescer interface {
	// Hooks returns the hooks of the pod. An error is reported for the pod and keeps its volumes from being cut.
	Hooks(pod *corev1.Pod) (PodHooks, error)
	// Exec runs one hook and returns when its command has ended. A command that fails is an error. An error that wraps
	// [ErrNotRun] says that the command was certainly not run.
	Exec(ctx context.Context, pod PodRef, hook Hook) error
}
