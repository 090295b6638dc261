package kubelet

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream/wsstream"
	"k8s.io/utils/exec"
)

// isV5 reports whether a request asks for the v5 channel protocol over WebSocket, the only one that client-go asks for. The
// streaming library leaves it to the kubelet.
func isV5(req *http.Request) bool { return wsstream.IsWebSocketRequestWithStreamCloseProtocol(req) }

// serveV5 runs a command over WebSocket with the v5 channel protocol.
func serveV5(w http.ResponseWriter, req *http.Request, c *call, container string, command []string, opts *remotecommand.Options) {
	written := func(asked bool) wsstream.ChannelType {
		if asked {
			return wsstream.WriteChannel
		}
		return wsstream.IgnoreChannel
	}
	socket := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{remotecommand.StreamProtocolV5Name: {
		Binary: true,
		Channels: []wsstream.ChannelType{
			remotecommand.StreamStdIn:  wsstream.IgnoreChannel,
			remotecommand.StreamStdOut: written(opts.Stdout),
			remotecommand.StreamStdErr: written(opts.Stderr),
			remotecommand.StreamErr:    wsstream.WriteChannel,
			remotecommand.StreamResize: wsstream.IgnoreChannel,
		},
	}})
	socket.SetIdleTimeout(idleTimeout)
	log := logr.FromContextOrDiscard(req.Context())
	_, channels, err := socket.Open(w, req)
	if err != nil {
		log.Error(err, "exec over websocket")
		return
	}
	defer func() { _ = socket.Close() }()
	err = c.ExecInContainer(req.Context(), c.pod.Name, string(c.pod.UID), container, command, nil,
		channels[remotecommand.StreamStdOut], channels[remotecommand.StreamStdErr], false, nil, 0)
	data, err := json.Marshal(exitStatus(err))
	if err == nil {
		_, err = channels[remotecommand.StreamErr].Write(data)
	}
	if err != nil {
		log.V(1).Info("exit is lost", "error", err.Error())
	}
}

// exitStatus is how a command's end is said in the error stream.
func exitStatus(err error) metav1.Status {
	if err == nil {
		return metav1.Status{Status: metav1.StatusSuccess}
	}
	exit, ok := errors.AsType[exec.CodeExitError](err)
	if !ok {
		return metav1.Status{
			Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError, Code: http.StatusInternalServerError,
			Message: "error executing command in container: " + err.Error(),
		}
	}
	return metav1.Status{
		Status:  metav1.StatusFailure,
		Reason:  remotecommand.NonZeroExitCodeReason,
		Message: "command terminated with non-zero exit code: " + err.Error(),
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{
			Type: remotecommand.ExitCodeCauseType, Message: strconv.Itoa(exit.Code),
		}}},
	}
}
