package backuptest

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sheetanchor/sheetanchor/internal/apirequest"
)

// status is the error the fault answers with.
func (f *Fault) status(info apirequest.Info, r Request) metav1.Status {
	retry := int((f.RetryAfter + time.Second - 1) / time.Second)
	status := statusFor(f.Code, info, r.Name, retry)
	if f.Reason != "" {
		status.Reason = f.Reason
	}
	if f.Message != "" {
		status.Message = f.Message
	}
	return status
}

// statusFor is what servers answer with a code. The texts of apierrors.NewGenericServerResponse are those of a client that was told
// nothing; they stand for codes that servers explain by the request's content.
func statusFor(code int, info apirequest.Info, name string, retry int) metav1.Status {
	resource := schema.GroupResource{Group: info.Group, Resource: info.Resource}
	status := apierrors.NewGenericServerResponse(code, info.Verb, resource, name, "", retry, false).Status()
	var said *apierrors.StatusError
	switch code {
	case http.StatusForbidden:
		said = apierrors.NewForbidden(resource, info.Name, errors.New(refusal(info)))
	case http.StatusNotFound:
		if name != "" {
			said = apierrors.NewNotFound(resource, name)
		}
	case http.StatusConflict:
		said = apierrors.NewConflict(resource, name, errors.New(registryConflict))
		if info.Verb == apirequest.VerbCreate {
			said = apierrors.NewAlreadyExists(resource, name)
		}
	case http.StatusGone:
		said = apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	case http.StatusTooManyRequests:
		said = apierrors.NewTooManyRequests("Too many requests, please try again later.", retry)
	case http.StatusInternalServerError:
		said = apierrors.NewInternalError(errors.New("etcdserver: request timed out"))
	case http.StatusServiceUnavailable:
		said = apierrors.NewServiceUnavailable("the server is currently unable to handle the request")
	case http.StatusGatewayTimeout:
		said = apierrors.NewTimeoutError("request did not complete within the allotted timeout", retry)
	default:
	}
	if said != nil {
		status = said.Status()
	}
	if retry > 0 {
		if status.Details == nil {
			status.Details = &metav1.StatusDetails{}
		}
		status.Details.RetryAfterSeconds = int32(retry) //nolint:gosec // seconds of a test
	}
	return status
}

const registryConflict = "the object has been modified; please apply your changes to the latest version and try again"

// refusal is why a server forbids a request.
func refusal(info apirequest.Info) string {
	user := orString(info.User, "system:admin")
	if !info.IsResource() {
		return fmt.Sprintf("User %q cannot %s path %q", user, info.Verb, info.Path)
	}
	where := "at the cluster scope"
	if info.Namespace != "" {
		where = fmt.Sprintf("in the namespace %q", info.Namespace)
	}
	return fmt.Sprintf("User %q cannot %s resource %q in API group %q %s", user, info.Verb, info.ResourcePath(), info.Group, where)
}
