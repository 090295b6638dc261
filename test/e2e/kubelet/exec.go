package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/utils/exec"
)

// idleTimeout ends a connection over which nothing is said, as a kubelet's default does.
const idleTimeout = 4 * time.Hour

// streamTimeout bounds the wait for a SPDY client's streams. It also bounds how long such a request may outlive the server.
const streamTimeout = 10 * time.Second

// errUnsupported is the answer to a command that would need a process behind it.
var errUnsupported = errors.New("standard input and terminals are not supported: nothing runs here")

// execHandler answers exec requests.
type execHandler struct {
	pods    *pods
	scripts *scripts
	record  *recorder
	conns   *conns
	stopped <-chan struct{} // closed when the server ends
}

// ServeHTTP implements http.Handler for paths with namespace, pod, perhaps uid, and container.
func (h *execHandler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	log := logr.FromContextOrDiscard(req.Context())
	opts, err := remotecommand.NewOptions(req)
	if err == nil && (opts.Stdin || opts.TTY) {
		err = errUnsupported
	}
	command := req.URL.Query()["command"]
	if err == nil && len(command) == 0 {
		err = errors.New("command: must not be empty")
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	pod, status, err := h.pod(req)
	if err != nil {
		log.Info("exec is refused", "path", req.URL.Path, "error", err.Error())
		http.Error(w, err.Error(), status)
		return
	}
	container := req.PathValue("container")
	writer := newHijacker(w, h.conns)
	c := &call{execHandler: h, pod: pod, gone: writer.gone, log: log}
	if isV5(req) {
		serveV5(writer, req, c, container, command, opts)
		return
	}
	remotecommand.ServeExec(writer, req, c, pod.Name, string(pod.UID), container, command, opts,
		idleTimeout, streamTimeout, remotecommand.SupportedStreamingProtocols)
}

// pod finds the pod of a request, with the HTTP status of the error if there is none that runs the container.
func (h *execHandler) pod(req *http.Request) (*corev1.Pod, int, error) {
	namespace, name, container := req.PathValue("namespace"), req.PathValue("pod"), req.PathValue("container")
	pod, err := h.pods.find(req.Context(), namespace, name)
	switch uid := req.PathValue("uid"); {
	case err != nil:
		return nil, http.StatusServiceUnavailable, err
	case pod == nil:
		return nil, http.StatusNotFound, fmt.Errorf("pod %s/%s does not exist", namespace, name)
	case uid != "" && uid != string(pod.UID):
		return nil, http.StatusNotFound, fmt.Errorf("pod %s/%s with UID %s does not exist", namespace, name, uid)
	case !running(pod, container):
		return nil, http.StatusInternalServerError, fmt.Errorf("container not found (%q)", container)
	}
	return pod, http.StatusOK, nil
}

// call is one exec request. It implements remotecommand.Executor.
type call struct {
	*execHandler
	pod  *corev1.Pod
	gone <-chan struct{} // closed when the connection has ended
	log  logr.Logger
}

// ExecInContainer records the command and ends as its script says.
func (c *call) ExecInContainer(_ context.Context, _, _, container string, command []string, _ io.Reader, stdout, stderr io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	e, err := c.record.begin(Exec{
		Namespace: c.pod.Namespace, Pod: c.pod.Name, PodUID: c.pod.UID,
		Container: container, Command: slices.Clone(command),
	})
	if err != nil {
		return err
	}
	script := c.scripts.take(e.Namespace, e.Pod, container, command)
	c.say(stdout, script.Stdout)
	c.say(stderr, script.Stderr)
	if err := c.wait(script); err != nil {
		return err
	}
	e.ExitCode = script.ExitCode
	select {
	case <-c.gone:
		e.Lost = true
	default:
	}
	if err := c.record.end(e); err != nil {
		return err
	}
	c.log.Info("exec", "id", e.ID, "pod", e.Namespace+"/"+e.Pod, "container", container, "command", command, "exitCode", e.ExitCode, "lost", e.Lost)
	if e.ExitCode != 0 {
		return exec.CodeExitError{Err: fmt.Errorf("exit status %d", e.ExitCode), Code: e.ExitCode}
	}
	return nil
}

// say writes output. That nobody listens any more does not end a command.
func (c *call) say(w io.Writer, text string) {
	if w == nil || text == "" {
		return
	}
	if _, err := io.WriteString(w, text); err != nil {
		c.log.V(1).Info("output is lost", "error", err.Error())
	}
}

// wait takes as long as the script says. The end of the server ends it with an error.
func (c *call) wait(script Script) error {
	if script.Delay > 0 {
		timer := time.NewTimer(script.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.stopped:
			return errStopped
		}
	}
	if script.Hang {
		select {
		case <-c.gone:
		case <-c.stopped:
		}
	}
	select {
	case <-c.stopped:
		return errStopped
	default:
		return nil
	}
}

var errStopped = errors.New("the kubelet has ended")
