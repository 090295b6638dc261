package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/csisnapshot/podexec"
)

// frozenAnnotation is how the embedded cluster remembers that a pod is frozen. A cluster in memory has no containers to
// run a command in, so its quiescer writes down what the command would have done.
const frozenAnnotation = "example.sheetanchor.io/frozen"

// The names of the embedded quiescer's hooks tell Exec what to write down.
const (
	hookFreeze = "freeze" // the pre hook of a pod that a post hook thaws
	hookPre    = "pre"    // the pre hook of a pod without a post hook: nothing stays frozen
	hookThaw   = "thaw"
)

// embeddedQuiescer reads hooks as podexec does, from Velero's annotations, and marks the pod instead of running them.
type embeddedQuiescer struct {
	annotations podexec.Annotations
	core        kubernetes.Interface
}

func newEmbeddedQuiescer(config *rest.Config) (*embeddedQuiescer, error) {
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("core client: %w", err)
	}
	return &embeddedQuiescer{core: core}, nil
}

// Hooks returns the pod's hooks, named for what they do to it.
func (q *embeddedQuiescer) Hooks(pod *corev1.Pod) (csisnapshot.PodHooks, error) {
	hooks, err := q.annotations.Hooks(pod)
	pre := hookPre
	if len(hooks.Post) > 0 {
		pre = hookFreeze
	}
	for i := range hooks.Pre {
		hooks.Pre[i].Name = pre
	}
	for i := range hooks.Post {
		hooks.Post[i].Name = hookThaw
	}
	return hooks, err
}

// Exec marks the pod frozen or thawed, if it is the pod that was meant and not another of the same name.
func (q *embeddedQuiescer) Exec(ctx context.Context, ref csisnapshot.PodRef, hook csisnapshot.Hook) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		pod, err := q.core.CoreV1().Pods(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if pod.UID != ref.UID {
			return fmt.Errorf("pod %s was created again", ref)
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"resourceVersion": pod.ResourceVersion,
			"annotations":     map[string]string{frozenAnnotation: strconv.FormatBool(hook.Name == hookFreeze)},
		}})
		if err != nil {
			return err
		}
		_, err = q.core.CoreV1().Pods(ref.Namespace).Patch(ctx, ref.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}
