package podexec

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// DefaultPrefix is the annotation prefix of Velero's backup hooks.
const DefaultPrefix = "hook.backup.velero.io"

// ErrAnnotation says that a hook annotation has a value that cannot be understood. The error is an [*AnnotationError].
var ErrAnnotation = errors.New("bad hook annotation")

// AnnotationError names the pod and the annotation at fault. It is [ErrAnnotation].
type AnnotationError struct {
	Namespace, Pod string
	// Annotation is the key, Value what it holds.
	Annotation, Value string
	// Reason is for people.
	Reason string
}

// Error names the pod, the annotation and what is wrong with it.
func (e *AnnotationError) Error() string {
	return fmt.Sprintf("pod %s/%s: annotation %s: %q: %s", e.Namespace, e.Pod, e.Annotation, e.Value, e.Reason)
}

// Is reports whether the target is [ErrAnnotation].
func (e *AnnotationError) Is(target error) bool { return target == ErrAnnotation }

// Annotations reads hooks from a pod's annotations. The zero value reads Velero's.
type Annotations struct {
	// Prefix stands behind "pre." and "post." and before "/command". Empty means DefaultPrefix.
	Prefix string
}

// Hooks returns the pod's hooks, at most one of each stage. It is pure. Every fault is reported, joined, each an
// [*AnnotationError].
func (a Annotations) Hooks(pod *corev1.Pod) (csisnapshot.PodHooks, error) {
	pre, preErr := a.hook(pod, "pre")
	post, postErr := a.hook(pod, "post")
	if err := errors.Join(preErr, postErr); err != nil {
		return csisnapshot.PodHooks{}, err
	}
	return csisnapshot.PodHooks{Pre: pre, Post: post}, nil
}

// hook reads the hook of one stage; without a command there is none.
func (a Annotations) hook(pod *corev1.Pod, stage string) ([]csisnapshot.Hook, error) {
	prefix := stage + "." + cmp.Or(a.Prefix, DefaultPrefix) + "/"
	text, ok := pod.Annotations[prefix+"command"]
	if !ok {
		return nil, nil
	}
	var errs []error
	fault := func(key, reason string) {
		errs = append(errs, &AnnotationError{
			Namespace: pod.Namespace, Pod: pod.Name, Annotation: prefix + key, Value: pod.Annotations[prefix+key], Reason: reason,
		})
	}
	hook := csisnapshot.Hook{}
	var err error
	if hook.Command, err = parseCommand(text); err != nil {
		fault("command", err.Error())
	}
	if hook.Container = pod.Annotations[prefix+"container"]; hook.Container != "" && !hasContainer(pod, hook.Container) {
		fault("container", "the pod has no such container")
	}
	if hook.Container == "" && len(pod.Spec.Containers) > 0 {
		hook.Container = pod.Spec.Containers[0].Name
	}
	switch pod.Annotations[prefix+"on-error"] {
	case "", "Fail":
	case "Continue":
		hook.OnError = csisnapshot.OnErrorContinue
	default:
		fault("on-error", "want Fail or Continue")
	}
	if v := pod.Annotations[prefix+"timeout"]; v != "" {
		if hook.Timeout, err = time.ParseDuration(v); err != nil || hook.Timeout <= 0 {
			fault("timeout", "want a positive duration such as 30s")
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return []csisnapshot.Hook{hook}, nil
}

// parseCommand reads a JSON array of strings, or takes the text as the program to run.
func parseCommand(text string) ([]string, error) {
	trimmed := strings.TrimSpace(text)
	if trimmed == "" {
		return nil, errors.New("empty command")
	}
	if !strings.HasPrefix(trimmed, "[") {
		return []string{text}, nil
	}
	var command []string
	if err := json.Unmarshal([]byte(trimmed), &command); err != nil {
		return nil, fmt.Errorf("not a JSON array of strings: %w", err)
	}
	if len(command) == 0 || command[0] == "" {
		return nil, errors.New("empty command")
	}
	return command, nil
}

func hasContainer(pod *corev1.Pod, name string) bool {
	named := func(c corev1.Container) bool { return c.Name == name }
	return slices.ContainsFunc(pod.Spec.Containers, named) || slices.ContainsFunc(pod.Spec.InitContainers, named)
}
