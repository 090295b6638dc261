package apiserver

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// listOptions reads and judges the options of a list or a watch as the real server does: 400 for what cannot be read, 422
// for what does not go together.
func (s *Server) listOptions(c *call, watch bool) (*metav1.ListOptions, error) {
	opts := &metav1.ListOptions{}
	if err := metav1.Convert_url_Values_To_v1_ListOptions(&c.query, opts, nil); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	opts.Watch = watch
	faults := validation.ValidateListOptions(&internalversion.ListOptions{
		Watch: watch, Continue: opts.Continue, SendInitialEvents: opts.SendInitialEvents,
		ResourceVersion: opts.ResourceVersion, ResourceVersionMatch: opts.ResourceVersionMatch,
	}, !s.opts.RefuseWatchList)
	for name, value := range map[string]int64{"limit": opts.Limit, "timeoutSeconds": orZero(opts.TimeoutSeconds)} {
		if value < 0 {
			faults = append(faults, field.Invalid(field.NewPath(name), value, "must not be negative"))
		}
	}
	if len(faults) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", faults)
	}
	return opts, nil
}

func orZero(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}
