package phasekube

import (
	"context"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
)

// Warnings receives what the API server warns of in its answers, such as a version that will go away or a phase near a limit
// that a policy sets. Set it as rest.Config.WarningHandlerWithContext of the client's configuration; client-go otherwise
// writes warnings to the process's global log. It is called in the goroutine of the request, with the context that was given
// to the Object. The nil Warnings logs them to the context's logr.
type Warnings func(ctx context.Context, text string)

var _ rest.WarningHandlerWithContext = Warnings(nil)

// warningCode is that of miscellaneous persistent warnings, the only one that API servers send.
const warningCode = 299

// HandleWarningHeaderWithContext passes a warning on.
func (w Warnings) HandleWarningHeaderWithContext(ctx context.Context, code int, _, text string) {
	switch {
	case code != warningCode || text == "":
	case w == nil:
		logr.FromContextOrDiscard(ctx).Info("the API server warns", "text", text)
	default:
		w(ctx, text)
	}
}
