package podexec

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// patience is how tries to have a command run follow each other.
type patience struct {
	between   time.Duration // two tries
	deniedFor time.Duration // until Forbidden is believed: a server that was just started refuses what it will allow
}

func newPatience() patience {
	return patience{between: 500 * time.Millisecond, deniedFor: 3 * time.Second}
}

// again calls try until the command was run or may have been, or the server says something that will not change, or ctx
// ends. It returns the last error. A command is sent once at most: another try is made only of one that nobody has got.
func (p patience) again(ctx context.Context, try func() error) error {
	var denied time.Time // since when the server forbids it
	for {
		err := try()
		if !apierrors.IsForbidden(err) {
			denied = time.Time{}
		} else if denied.IsZero() {
			denied = time.Now()
		}
		if !unsent(err) || apierrors.IsForbidden(err) && time.Since(denied) >= p.deniedFor {
			return err
		}
		pause := time.NewTimer(p.between)
		select {
		case <-ctx.Done():
			pause.Stop()
			return err
		case <-pause.C:
		}
	}
}

// unsent reports whether the command has certainly not been run for a reason that may pass: no server listens, or it
// answered the request by a status that tells of its own trouble.
func unsent(err error) bool {
	if err == nil {
		return false
	}
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		return true
	}
	// The SPDY executor keeps only the text of the error, behind the address in quotes.
	if strings.HasPrefix(err.Error(), "error sending request: ") && strings.Contains(err.Error(), `": dial `) || errors.Is(err, syscall.ECONNREFUSED) {
		return true
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch status.Status().Code {
	case http.StatusTooManyRequests, http.StatusUnauthorized, http.StatusForbidden,
		http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	default:
		return false
	}
}
