package apiserver

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
)

const mediaProtobuf = "application/vnd.kubernetes.protobuf"

// decode reads an object of the call's resource out of its body, in its storage version.
func (c *call) decode() (*unstructured.Unstructured, error) {
	var raw map[string]any
	var strict []error
	var err error
	switch c.media {
	case "", mediaJSON:
		raw, strict, err = c.res.read(c.body, c.info.Version, false)
	case "application/yaml":
		raw, strict, err = c.res.read(c.body, c.info.Version, true)
	case mediaProtobuf:
		if !c.res.typed() {
			return nil, c.unknownBody("application/json, application/yaml")
		}
		raw, err = fromProtobuf(c.body)
	default:
		return nil, c.unknownBody("application/json, application/yaml, " + mediaProtobuf)
	}
	if err != nil {
		return nil, c.res.misfit(c.info.Version, err)
	}
	u, dropped, err := c.res.finish(raw, c.info.Version)
	if err != nil {
		return nil, err
	}
	return u, c.strictly(append(strict, dropped...), func(err error) error { return c.res.misfit(c.info.Version, err) })
}

func (*call) unknownBody(accepted string) error {
	return unsupported("the body of the request was in an unknown format - accepted media types include: " + accepted)
}

func unsupported(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType, Message: message,
	}}
}

func fromProtobuf(body []byte) (map[string]any, error) {
	typed, gvk, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	return fromTyped(typed, *gvk)
}

// misfit is the error for an object that cannot be read as one of the resource.
func (r *Resource) misfit(version string, err error) error {
	gv := schema.GroupVersion{Group: r.Group, Version: version}
	return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", r.Kind, gv, r.Kind, err))
}

// checkFieldValidation refuses a fieldValidation that is none.
func (c *call) checkFieldValidation() error {
	faults := metav1validation.ValidateFieldValidation(field.NewPath("fieldValidation"), c.query.Get("fieldValidation"))
	if faults = append(faults, metav1validation.ValidateDryRun(field.NewPath("dryRun"), c.query["dryRun"])...); len(faults) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "Options"}, "", faults)
}

// strictly does with faults that a lenient reader overlooks, unknown and duplicate fields, what the request wants: it
// refuses them, warns of them, which is the default, or overlooks them.
func (c *call) strictly(faults []error, refuse func(error) error) error {
	if len(faults) == 0 {
		return nil
	}
	switch c.query.Get("fieldValidation") {
	case metav1.FieldValidationStrict:
		return refuse(runtime.NewStrictDecodingError(faults))
	case metav1.FieldValidationIgnore:
	default:
		for _, fault := range faults {
			c.warnings = append(c.warnings, fault.Error())
		}
	}
	return nil
}
