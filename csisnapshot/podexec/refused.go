package podexec

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// maxRefusal is how many bytes of an answer that refuses a connection are read.
const maxRefusal = 64 << 10

// keepRefusal reads the body of an answer that does not switch protocols, and leaves one that can be read again.
func keepRefusal(resp *http.Response) (body []byte) {
	if resp.StatusCode == http.StatusSwitchingProtocols || resp.Body == nil {
		return nil
	}
	body, _ = io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // what there is has to do
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return body
}

// refusal is the error of a connection that the server refused, with its status: client-go keeps only the text from 0.37 on,
// and at all times that of answers of proxies, which are no Status.
func refusal(resp *http.Response, body []byte, err error) error {
	var status apierrors.APIStatus
	if resp.StatusCode == http.StatusSwitchingProtocols || errors.As(err, &status) {
		return err
	}
	var told metav1.Status
	if json.Unmarshal(body, &told) == nil && told.Kind == "Status" && told.Status == metav1.StatusFailure && told.Code != 0 {
		return &apierrors.StatusError{ErrStatus: told}
	}
	return apierrors.NewGenericServerResponse(resp.StatusCode, "create", schema.GroupResource{Resource: "pods/exec"}, "",
		strings.TrimSpace(strings.ToValidUTF8(string(body), "?")), 0, true)
}
