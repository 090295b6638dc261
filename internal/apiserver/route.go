package apiserver

import (
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/sheetanchor/sheetanchor/internal/apirequest"
)

// call is one request about a resource.
type call struct {
	req   *http.Request
	info  apirequest.Info
	res   *Resource
	table *table
	query url.Values
	body  []byte
	media string // of the body

	format   format   // of the answer
	warnings []string // to go with it
}

func (c *call) dryRun() bool { return slices.Contains(c.query["dryRun"], "All") }

// apiVersion is the group and version the client speaks.
func (c *call) apiVersion() string {
	if c.info.Group == "" {
		return c.info.Version
	}
	return c.info.Group + "/" + c.info.Version
}

// errClosed is how a server that is gone looks to a client.
var errClosed = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

// RoundTrip implements http.RoundTripper. Its error is never a Kubernetes error: those are answers. After Close every
// request finds the connection refused.
func (s *Server) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer func() { _ = req.Body.Close() }()
	}
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	select {
	case <-s.closed:
		return nil, errClosed
	default:
	}
	var body []byte
	if req.Body != nil {
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
	}
	info := apirequest.Parse(req)
	if err := s.authorize(req, info); err != nil {
		return failure(req, err), nil
	}
	switch {
	case !info.IsResource():
		return s.discover(req, info), nil
	case isReview(info):
		resp, err := s.review(req, info, body)
		if err != nil {
			return failure(req, err), nil
		}
		return resp, nil
	}
	t, res := s.find(info.Group, info.Resource)
	if t == nil || !res.serves(info.Version) || (info.Namespace != "" && !res.Namespaced) || !res.has(info.Subresource) {
		return noSuchPath(req), nil
	}
	c := &call{req: req, info: info, res: res, table: t, query: req.URL.Query(), body: body}
	c.media, _, _ = mime.ParseMediaType(req.Header.Get("Content-Type"))
	resp, err := s.serve(req.Context(), c)
	if err == nil {
		return resp, nil
	}
	if ctxErr := req.Context().Err(); ctxErr != nil && errors.Is(err, ctxErr) {
		return nil, err
	}
	return failure(req, err), nil
}

func (s *Server) serve(ctx context.Context, c *call) (*http.Response, error) {
	verb := c.info.Verb
	if !c.res.can(verb, c.info.Subresource) || c.res.Namespaced && c.info.Namespace == "" && !allNamespaces(verb) {
		return nil, apierrors.NewMethodNotSupported(c.res.groupResource(), verb)
	}
	var err error
	if c.format, err = negotiate(c.req, ofObjects); err != nil {
		return nil, err
	}
	if c.info.Subresource == subExec {
		return s.exec(c)
	}
	if c.info.IsWrite() {
		if err := c.checkFieldValidation(); err != nil {
			return nil, err
		}
	}
	switch verb {
	case apirequest.VerbGet:
		return s.get(c)
	case apirequest.VerbUpdate:
		return s.update(ctx, c)
	case apirequest.VerbPatch:
		return s.patch(ctx, c)
	case apirequest.VerbList:
		return s.list(c)
	case apirequest.VerbWatch:
		return s.watch(ctx, c)
	case apirequest.VerbCreate:
		return s.create(ctx, c)
	case apirequest.VerbDelete:
		return s.delete(ctx, c)
	default:
		return s.deleteCollection(ctx, c)
	}
}
