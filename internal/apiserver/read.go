package apiserver

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (s *Server) get(c *call) (*http.Response, error) {
	s.mu.Lock()
	o, rv := c.table.get(c.info.Namespace, c.info.Name), s.rv
	s.mu.Unlock()
	if err := notAfter(c.query.Get("resourceVersion"), rv); err != nil {
		return nil, err
	}
	if o == nil {
		return nil, apierrors.NewNotFound(c.res.groupResource(), c.info.Name)
	}
	return c.object(http.StatusOK, o)
}

// page is what a list says beside its items.
type page struct {
	rv        uint64
	next      string // continue token
	remaining int    // negative: unknown
}

// token is what a continue token holds: the state that the first page showed, and the key to start after.
type token struct {
	Version uint64 `json:"v"`
	After   string `json:"after"`
}

func (s *Server) list(c *call) (*http.Response, error) {
	sel, err := c.selector()
	if err != nil {
		return nil, err
	}
	limit, err := c.limit()
	if err != nil {
		return nil, err
	}
	from, err := c.token()
	if err != nil {
		return nil, err
	}
	objects, rv, err := s.snapshot(c, from)
	if err != nil {
		return nil, err
	}
	if from != nil {
		i, found := slices.BinarySearchFunc(objects, from.After, func(o *object, key string) int { return bytes.Compare([]byte(o.key), []byte(key)) })
		if found {
			i++
		}
		objects = objects[i:]
	}
	p := page{rv: rv}
	var items []*object
	for i, o := range objects {
		if !sel.matches(o) {
			continue
		}
		if limit > 0 && len(items) == limit {
			p.next = base64.RawURLEncoding.EncodeToString(encode(token{Version: rv, After: items[limit-1].key}))
			p.remaining = -1
			if sel.everything() {
				p.remaining = len(objects) - i
			}
			break
		}
		items = append(items, o)
	}
	return c.page(items, p)
}

// snapshot returns the objects of the call's namespace as the call asks: as of now, of a continue token or of an exact
// resourceVersion.
func (s *Server) snapshot(c *call, from *token) ([]*object, uint64, error) {
	asked := c.query.Get("resourceVersion")
	exact := c.query.Get("resourceVersionMatch") == string(metav1.ResourceVersionMatchExact)
	s.mu.Lock()
	defer s.mu.Unlock()
	rv := s.rv
	switch {
	case from != nil:
		rv = from.Version
	case exact:
		wanted, err := strconv.ParseUint(asked, 10, 64)
		if err != nil || wanted == 0 {
			return nil, 0, apierrors.NewBadRequest(fmt.Sprintf("resourceVersion %q: resourceVersionMatch Exact needs one that is not 0", asked))
		}
		rv = wanted
	}
	if err := notAfter(asked, s.rv); err != nil {
		return nil, 0, err
	}
	objects, ok := c.table.at(rv)
	if !ok {
		return nil, 0, apierrors.NewResourceExpired("The provided continue parameter or resourceVersion is too old to display a consistent list result. You can start a new list without the continue parameter.")
	}
	return cloned(within(objects, c.info.Namespace)), rv, nil
}

func cloned(objects []*object) []*object { return slices.Clone(objects) }

// notAfter refuses a resourceVersion that the server has not reached.
func notAfter(asked string, rv uint64) error {
	if asked == "" {
		return nil
	}
	wanted, err := strconv.ParseUint(asked, 10, 64)
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("resourceVersion: invalid value %q", asked))
	}
	if wanted <= rv {
		return nil
	}
	late := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", wanted, rv), 1)
	late.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
	return late
}

func (c *call) limit() (int, error) {
	asked := c.query.Get("limit")
	if asked == "" {
		return 0, nil
	}
	limit, err := strconv.Atoi(asked)
	if err != nil || limit < 0 {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("limit: invalid value %q", asked))
	}
	return limit, nil
}

func (c *call) token() (*token, error) {
	asked := c.query.Get("continue")
	if asked == "" {
		return nil, nil //nolint:nilnil // no token is not an error
	}
	var t token
	raw, err := base64.RawURLEncoding.DecodeString(asked)
	if err == nil {
		err = json.Unmarshal(raw, &t)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("continue key is not valid: %v", err))
	}
	return &t, nil
}

// page answers with a list. The objects' own JSON is copied, not encoded again.
func (c *call) page(items []*object, p page) (*http.Response, error) {
	meta := metav1.ListMeta{ResourceVersion: formatVersion(p.rv), Continue: p.next}
	if p.remaining > 0 {
		meta.RemainingItemCount = new(int64(p.remaining))
	}
	var body bytes.Buffer
	fmt.Fprintf(&body, `{"kind":%q,"apiVersion":%q,"metadata":%s,"items":[`, c.res.Kind+"List", c.apiVersion(), encode(meta))
	for i, o := range items {
		raw, err := o.in(c.apiVersion())
		if err != nil {
			return nil, err
		}
		if i > 0 {
			body.WriteByte(',')
		}
		body.Write(raw)
	}
	body.WriteString("]}\n")
	return answer(c.req, http.StatusOK, body.Bytes()), nil
}
