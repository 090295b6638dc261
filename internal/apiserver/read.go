package apiserver

import (
	"cmp"
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

func (s *Server) list(c *call) (*http.Response, error) {
	opts, err := s.listOptions(c, false)
	if err != nil {
		return nil, err
	}
	sel, err := c.selector()
	if err != nil {
		return nil, err
	}
	objects, rv, err := s.snapshot(c, opts)
	if err != nil {
		return nil, err
	}
	limit := int(opts.Limit)
	if opts.ResourceVersion == "0" {
		limit = 0 // as answers from the real server's cache have none
	}
	p := page{rv: rv}
	var items []*object
	for i, o := range objects {
		if !sel.matches(o) {
			continue
		}
		if limit > 0 && len(items) == limit {
			p.next = tokenAfter(rv, items[limit-1].key)
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

// snapshot returns the objects of the call's namespace as the call asks: as of now, from where a continue token says, or
// as of an exact resourceVersion.
func (s *Server) snapshot(c *call, opts *metav1.ListOptions) ([]*object, uint64, error) {
	if opts.Continue != "" {
		if opts.ResourceVersion != "" && opts.ResourceVersion != "0" {
			return nil, 0, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
		}
		return s.rest(c, opts.Continue)
	}
	asked := opts.ResourceVersion
	exact := opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact ||
		opts.ResourceVersionMatch == "" && opts.Limit > 0 && asked != "" && asked != "0" // as before there was a match
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := notAfter(asked, s.rv); err != nil {
		return nil, 0, err
	}
	rv := s.rv
	if exact {
		rv, _ = strconv.ParseUint(asked, 10, 64) // which notAfter has checked
	}
	objects, ok := c.table.at(rv)
	if !ok {
		return nil, 0, apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	}
	return cloned(within(objects, c.info.Namespace)), rv, nil
}

// rest returns what follows a continue token.
func (s *Server) rest(c *call, text string) ([]*object, uint64, error) {
	from, err := parseToken(text)
	if err != nil {
		return nil, 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	rv := s.rv
	if from.Version != latest {
		rv = uint64(from.Version)
	}
	if err := notAfter(formatVersion(rv), s.rv); err != nil {
		return nil, 0, err
	}
	objects, ok := c.table.at(rv)
	if !ok {
		return nil, 0, from.expired()
	}
	objects = within(objects, c.info.Namespace)
	i, _ := slices.BinarySearchFunc(objects, from.key(c.res.Namespaced), func(o *object, key string) int { return cmp.Compare(o.key, key) })
	return cloned(objects[i:]), rv, nil
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
