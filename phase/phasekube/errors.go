package phasekube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sheetanchor/sheetanchor/phase"
)

// readError gives a failed read its category.
func readError(err error) error {
	if known := category(err); known != nil {
		return known
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && status.Status().Code >= http.StatusInternalServerError {
		return phase.TransientAfter(err, retryAfter(err))
	}
	if apierrors.IsTimeout(err) || transport(err) {
		return phase.Transient(err)
	}
	return err
}

// writeError gives a failed write its category. Where the answer may have got lost behind the write, it is an unknown
// outcome: a server error can come from a proxy, or from a store that wrote and then timed out.
func writeError(err error) error {
	if known := category(err); known != nil {
		return known
	}
	status := apierrors.APIStatus(nil)
	switch {
	case errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError && !apierrors.IsTimeout(err):
		return err
	case notSent(err):
		return phase.Transient(err)
	default:
		return fmt.Errorf("%w: %w", phase.ErrUnknownOutcome, err)
	}
}

// category is for the answers that mean the same for reads and writes: nothing was done. It returns nil for the others.
func category(err error) error {
	switch {
	case apierrors.IsConflict(err):
		return fmt.Errorf("%w: %w", phase.ErrConflict, err)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return fmt.Errorf("%w: %w", phase.ErrInvalid, err)
	case apierrors.IsNotFound(err):
		if namesObject(err) {
			return fmt.Errorf("%w: %w", phase.ErrNotFound, err)
		}
		return fmt.Errorf("%w: %w", phase.ErrMissingAPI, err)
	case apierrors.IsMethodNotSupported(err): // of a resource in namespaces, asked for without one, for example
		return fmt.Errorf("%w: %w", phase.ErrMissingAPI, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: %w", forbidden(err), err)
	case apierrors.IsTooManyRequests(err):
		return phase.TransientAfter(err, retryAfter(err))
	case apierrors.IsUnauthorized(err):
		return phase.Transient(err)
	default:
		return nil
	}
}

// namesObject: a server without the resource answers in plain text, which client-go turns into a NotFound with the cause
// UnexpectedServerResponse and no name.
func namesObject(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return false
	}
	d := status.Status().Details
	return d != nil && d.Name != "" && !slices.ContainsFunc(d.Causes, func(c metav1.StatusCause) bool {
		return c.Type == metav1.CauseTypeUnexpectedServerResponse
	})
}

func forbidden(err error) error {
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return phase.ErrNamespaceTerminating
	case strings.Contains(err.Error(), "exceeded quota"): // the server has no cause for it
		return phase.ErrQuotaExceeded
	default:
		return phase.ErrForbidden
	}
}

func retryAfter(err error) time.Duration {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return time.Duration(seconds) * time.Second
}

// transport says that the request or its answer got lost on the way.
func transport(err error) bool {
	if _, ok := errors.AsType[*url.Error](err); ok {
		return true
	}
	_, ok := errors.AsType[net.Error](err)
	return ok || errors.Is(err, context.DeadlineExceeded)
}

// notSent says that no connection was made.
func notSent(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}
