package operationstest_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"

	"github.com/sheetanchor/sheetanchor/operations"
)

// bucket is a small object server with conditional puts, as S3 and its like have them.
type bucket struct {
	mu      sync.Mutex
	objects map[string][]byte
}

func etag(data []byte) string {
	sum := sha256.Sum256(data)
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	object, exists := b.objects[r.URL.Path]
	switch r.Method {
	case http.MethodGet:
		if !exists {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("ETag", etag(object))
		_, _ = w.Write(object)
	case http.MethodPut:
		if match := r.Header.Get("If-Match"); match != "" && (!exists || match != etag(object)) || r.Header.Get("If-None-Match") == "*" && exists {
			http.Error(w, "the condition does not hold", http.StatusPreconditionFailed)
			return
		}
		b.objects[r.URL.Path] = body
		w.Header().Set("ETag", etag(body))
	case http.MethodDelete:
		switch match := r.Header.Get("If-Match"); {
		case !exists:
			http.NotFound(w, r)
		case match != "" && match != etag(object):
			http.Error(w, "the condition does not hold", http.StatusPreconditionFailed)
		default:
			delete(b.objects, r.URL.Path)
		}
	default:
		http.Error(w, r.Method, http.StatusMethodNotAllowed)
	}
}

// inMemory serves requests without a socket, so that virtual time goes on while they run.
type inMemory struct{ handler http.Handler }

func (t inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, context.Cause(r.Context())
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	rec := httptest.NewRecorder()
	t.handler.ServeHTTP(rec, r)
	return rec.Result(), nil
}

// httpStore is a store of objects behind conditional puts. It shows all that a store on S3 or its like needs.
type httpStore struct{ client *http.Client }

func newHTTPStore(handler http.Handler) *httpStore {
	return &httpStore{client: &http.Client{Transport: inMemory{handler}}}
}

func (s *httpStore) Capabilities() operations.Capabilities {
	return operations.Capabilities{ConditionalCreate: true, ConditionalReplace: true}
}

func (s *httpStore) Read(ctx context.Context, name string) (data []byte, version string, err error) {
	resp, err := s.do(ctx, http.MethodGet, name, nil, nil)
	if err != nil {
		return nil, "", fmt.Errorf("get %s: %w", name, err)
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK:
		data, err = io.ReadAll(resp.Body)
		return data, resp.Header.Get("ETag"), err
	case http.StatusNotFound:
		return nil, "", fmt.Errorf("get %s: %w", name, operations.ErrNotFound)
	}
	return nil, "", fmt.Errorf("get %s: %s", name, resp.Status)
}

func (s *httpStore) Write(ctx context.Context, name string, data []byte, old string) (version string, err error) {
	condition := http.Header{"If-Match": {old}}
	if old == "" {
		condition = http.Header{"If-None-Match": {"*"}}
	}
	resp, err := s.do(ctx, http.MethodPut, name, data, condition)
	if err != nil {
		return "", fmt.Errorf("put %s: %w", name, err)
	}
	defer func() { _ = resp.Body.Close() }()
	switch {
	case resp.StatusCode == http.StatusOK:
		return resp.Header.Get("ETag"), nil
	case resp.StatusCode == http.StatusPreconditionFailed:
		return "", fmt.Errorf("put %s: %w", name, operations.ErrConflict)
	case resp.StatusCode >= http.StatusInternalServerError:
		return "", fmt.Errorf("put %s: %w: %s", name, operations.ErrUnknownOutcome, resp.Status)
	}
	return "", fmt.Errorf("put %s: %s", name, resp.Status)
}

func (s *httpStore) Remove(ctx context.Context, name, old string) error {
	resp, err := s.do(ctx, http.MethodDelete, name, nil, http.Header{"If-Match": {old}})
	if err != nil {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	defer func() { _ = resp.Body.Close() }()
	switch {
	case resp.StatusCode == http.StatusOK:
		return nil
	case resp.StatusCode == http.StatusNotFound:
		return fmt.Errorf("delete %s: %w", name, operations.ErrNotFound)
	case resp.StatusCode == http.StatusPreconditionFailed:
		return fmt.Errorf("delete %s: %w", name, operations.ErrConflict)
	case resp.StatusCode >= http.StatusInternalServerError:
		return fmt.Errorf("delete %s: %w: %s", name, operations.ErrUnknownOutcome, resp.Status)
	}
	return fmt.Errorf("delete %s: %s", name, resp.Status)
}

func (s *httpStore) do(ctx context.Context, method, name string, body []byte, header http.Header) (*http.Response, error) {
	if !fs.ValidPath(name) || name == "." || strings.Contains(name, "\x00") {
		return nil, errors.New("bad name")
	}
	u := url.URL{Scheme: "http", Host: "bucket.test", Path: "/" + name}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, header)
	return s.client.Do(req)
}
