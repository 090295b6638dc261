package podexec

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// Options change how a [Quiescer] works. The zero value is Velero's annotations.
type Options struct {
	// Annotations are where hooks are read from.
	Annotations Annotations
	// SPDYOnly skips the attempt over a WebSocket connection, for API servers before Kubernetes 1.30 behind proxies that
	// break such attempts instead of refusing them.
	SPDYOnly bool
}

// Quiescer is a [csisnapshot.Quiescer] that reads annotations and runs commands in pods.
type Quiescer struct {
	opts   Options
	config *rest.Config
	client *rest.RESTClient
	tries  patience
}

var _ csisnapshot.Quiescer = (*Quiescer)(nil)

// New makes a quiescer on the API server of the config, which is copied. It sends no request. The user of the config
// needs the verb create (get, for WebSocket connections) on pods/exec.
func New(config *rest.Config, opts Options) (*Quiescer, error) {
	if config == nil {
		return nil, errors.New("podexec: config is nil")
	}
	config = rest.CopyConfig(config)
	config.GroupVersion = &corev1.SchemeGroupVersion
	config.APIPath = "/api"
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("podexec: client: %w", err)
	}
	return &Quiescer{opts: opts, config: config, client: client, tries: newPatience()}, nil
}

// Hooks reads the pod's annotations, as [Annotations.Hooks].
func (q *Quiescer) Hooks(pod *corev1.Pod) (csisnapshot.PodHooks, error) {
	return q.opts.Annotations.Hooks(pod)
}

// Exec runs the hook's command in its container and waits for its end. A command that fails is an [*ExitError]; a
// connection that broke, as [ErrNoStatus], or the end of ctx, is another error. While no server listens, or it answers by a
// status of its own trouble, the command is kept and sent later, until ctx ends: the error is [csisnapshot.ErrNotRun] then.
// Forbidden is believed after 3 s. A command is sent once at most. The hook's own timeout and on-error policy are the caller's.
func (q *Quiescer) Exec(ctx context.Context, pod csisnapshot.PodRef, hook csisnapshot.Hook) error {
	stderr := &tail{limit: stderrLimit}
	err := q.tries.again(ctx, func() error {
		return q.stream(ctx, q.url(pod, hook), remotecommand.StreamOptions{Stdout: discard{}, Stderr: stderr})
	})
	return outcome(pod, hook, stderr.String(), err)
}

// url is the address of the pod's exec subresource with the command.
func (q *Quiescer) url(pod csisnapshot.PodRef, hook csisnapshot.Hook) *url.URL {
	return q.client.Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: hook.Container, Command: hook.Command, Stdout: true, Stderr: true,
		}, scheme.ParameterCodec).URL()
}

// stream runs one command; executors are not safe for reuse.
func (q *Quiescer) stream(ctx context.Context, address *url.URL, opts remotecommand.StreamOptions) error {
	if !q.opts.SPDYOnly {
		socket, err := remotecommand.NewWebSocketExecutor(q.config, http.MethodGet, address.String())
		if err != nil {
			return err
		}
		if err = socket.StreamWithContext(ctx, opts); !upgradeRefused(err) {
			return err
		}
	}
	executor, status, err := spdyExecutor(q.config, address)
	if err != nil {
		return err
	}
	err = executor.StreamWithContext(ctx, opts)
	if err == nil && !status.read.Load() {
		return ErrNoStatus
	}
	return err
}

// upgradeRefused reports whether the WebSocket connection was refused before anything ran. The type of that error is in
// another module from client-go 0.37 on, which we do not require; its text is the same.
func upgradeRefused(err error) bool {
	return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err) ||
		err != nil && strings.HasPrefix(err.Error(), "unable to upgrade streaming request: ")
}
