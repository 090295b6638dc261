package apiserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Failure answers req with status as a Kubernetes API server does: the code, the Status object as body and, if it has
// details with RetryAfterSeconds, the Retry-After header.
func Failure(req *http.Request, status metav1.Status) *http.Response {
	status.Kind, status.APIVersion, status.Status = "Status", "v1", metav1.StatusFailure
	resp := answer(req, int(status.Code), encode(&status))
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		resp.Header.Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	return resp
}

func failure(req *http.Request, err error) *http.Response {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return Failure(req, status.Status())
	}
	return Failure(req, apierrors.NewInternalError(err).Status())
}

func noSuchPath(req *http.Request) *http.Response {
	resp := answer(req, http.StatusNotFound, []byte("404 page not found\n"))
	resp.Header.Set("Content-Type", "text/plain; charset=utf-8")
	return resp
}

func answer(req *http.Request, code int, body []byte) *http.Response {
	return respond(req, code, int64(len(body)), io.NopCloser(bytes.NewReader(body)))
}

func respond(req *http.Request, code int, length int64, body io.ReadCloser) *http.Response {
	return &http.Response{
		Status: strconv.Itoa(code) + " " + http.StatusText(code), StatusCode: code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"application/json"}},
		ContentLength: length, Body: body, Request: req,
	}
}

// answer is answer with the warnings of the call.
func (c *call) answer(code int, body []byte) *http.Response {
	resp := answer(c.req, code, body)
	for _, warning := range c.warnings {
		resp.Header.Add("Warning", "299 - "+strconv.Quote(warning))
	}
	return resp
}

// encode is for values of this package that always encode.
func encode(value any) []byte {
	raw, err := json.Marshal(value)
	if err != nil {
		return []byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":500}`)
	}
	return raw
}
