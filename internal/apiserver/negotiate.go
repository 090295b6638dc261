package apiserver

import (
	"cmp"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const mediaJSON = "application/json"

// format is the form of an answer: JSON, of objects or of what is made of them.
type format struct {
	as      string // "", "Table", "PartialObjectMetadata", "PartialObjectMetadataList"
	version string // of group meta.k8s.io, where as is not empty
	group   string
}

func (f format) table() bool { return f.as == "Table" }

func (f format) partial() bool { return strings.HasPrefix(f.as, "PartialObjectMetadata") }

func (f format) apiVersion() string { return metav1.GroupName + "/" + f.version }

// accepted are the clauses of an Accept header, those with the highest quality first.
func accepted(header http.Header) []map[string]string {
	var clauses []map[string]string
	for _, line := range header.Values("Accept") {
		for clause := range strings.SplitSeq(line, ",") {
			media, params, err := mime.ParseMediaType(clause)
			if err != nil {
				continue
			}
			if params == nil {
				params = map[string]string{}
			}
			params["media"] = media
			clauses = append(clauses, params)
		}
	}
	slices.SortStableFunc(clauses, func(a, b map[string]string) int { return cmp.Compare(quality(b), quality(a)) })
	return clauses
}

func quality(params map[string]string) float64 {
	q, err := strconv.ParseFloat(params["q"], 64)
	if err != nil {
		return 1
	}
	return q
}

func speaksJSON(media string) bool {
	return media == mediaJSON || media == "*/*" || media == "application/*"
}

// negotiate picks the first form of an answer that a request accepts and fits allows, in JSON. A request that accepts none
// gets 406, as one for protobuf only does.
func negotiate(req *http.Request, fits func(format) bool) (format, error) {
	clauses := accepted(req.Header)
	if len(clauses) == 0 {
		return format{}, nil
	}
	for _, params := range clauses {
		f := format{as: params["as"], version: params["v"], group: params["g"]}
		if speaksJSON(params["media"]) && quality(params) > 0 && fits(f) {
			return f, nil
		}
	}
	return format{}, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
		Message: "only the following media types are accepted: " + mediaJSON,
	}}
}

// ofObjects allows what objects can be shown as.
func ofObjects(f format) bool {
	switch f.as {
	case "":
		return true
	case "Table", "PartialObjectMetadata", "PartialObjectMetadataList":
		return f.group == metav1.GroupName && (f.version == "v1" || f.version == "v1beta1")
	default:
		return false
	}
}
