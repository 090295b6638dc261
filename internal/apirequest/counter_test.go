package apirequest_test

import (
	"errors"
	"net/http"
	"net/url"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/sheetanchor/sheetanchor/internal/apirequest"
)

var errDown = errors.New("server down")

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func requestURL(path, query string) *url.URL { return &url.URL{Path: path, RawQuery: query} }

func send(t *testing.T, rt http.RoundTripper, method, path string) error {
	t.Helper()
	req := (&http.Request{Method: method, URL: requestURL(path, "")}).WithContext(t.Context())
	resp, err := rt.RoundTrip(req)
	if err == nil {
		return resp.Body.Close()
	}
	return err
}

func TestCounterCountsWhatLeaves(t *testing.T) {
	t.Parallel()
	var counter apirequest.Counter
	if got := counter.Requests(); got == nil || len(got) != 0 {
		t.Errorf("Requests() of the zero Counter = %v, want an empty map", got)
	}
	down := counter.Wrap(transport(func(*http.Request) (*http.Response, error) { return nil, errDown }))
	up := counter.Wrap(transport(func(*http.Request) (*http.Response, error) {
		return &http.Response{Body: http.NoBody}, nil
	}))
	if wrapped, ok := up.(utilnet.RoundTripperWrapper); !ok || wrapped.WrappedRoundTripper() == nil {
		t.Error("client-go cannot find the transport below")
	}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if err := send(t, down, http.MethodPost, "/api/v1/namespaces/a/pods"); !errors.Is(err, errDown) {
				t.Errorf("RoundTrip = %v, want the transport's own error", err)
			}
			if err := send(t, up, http.MethodGet, "/api/v1/pods"); err != nil {
				t.Errorf("RoundTrip = %v, want nil", err)
			}
		})
	}
	wg.Wait()
	got := counter.Requests()
	if diff := cmp.Diff(map[string]int{"create pods": 50, "list pods": 50}, got); diff != "" {
		t.Errorf("Requests() -want +got:\n%s", diff)
	}
	got["create pods"] = 0
	if counter.Requests()["create pods"] != 50 {
		t.Error("changing the returned map changed the counter")
	}
	counter.Reset()
	if got := counter.Requests(); len(got) != 0 {
		t.Errorf("Requests() after Reset = %v, want none", got)
	}
}
