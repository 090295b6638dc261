package kubelet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/sheetanchor/sheetanchor/test/e2e/internal/unixsocket"
)

// pollInterval is how often the await methods look.
const pollInterval = 20 * time.Millisecond

// Client speaks to the control socket of a [Server]. Make one with [NewClient]. It is safe for concurrent use, and may be
// made before the server runs and used after it was started again. The methods of a nil or zero Client return
// [ErrNoClient].
type Client struct {
	http *http.Client
}

// ErrNoClient says that a [Client] was not made by [NewClient].
var ErrNoClient = errors.New("no kubelet client: NewClient makes one")

// NewClient returns a client for the socket "unix:///absolute/path". Its error says that the address is no such address.
func NewClient(control string) (*Client, error) {
	path, err := unixsocket.Path(control)
	if err != nil {
		return nil, fmt.Errorf("kubelet client: %w", err)
	}
	transport := unixsocket.Transport(path)
	transport.DisableKeepAlives = true // so that a client needs no Close
	return &Client{http: &http.Client{Transport: transport}}, nil
}

// Healthy returns nil once the server runs and knows its node's pods.
func (c *Client) Healthy(ctx context.Context) error {
	return c.do(ctx, http.MethodGet, pathHealth, nil, nil)
}

// AwaitHealthy returns nil once the server is healthy, or the end of ctx with what was wrong last.
func (c *Client) AwaitHealthy(ctx context.Context) error {
	return await(ctx, c.Healthy)
}

// AddScript puts a script in force, before all earlier ones. Its error names the wrong fields.
func (c *Client) AddScript(ctx context.Context, script Script) error {
	return c.do(ctx, http.MethodPost, pathScripts, script, nil)
}

// ClearScripts drops the scripts with this very pattern, or all for "". Commands that run already are not changed.
func (c *Client) ClearScripts(ctx context.Context, pattern string) error {
	return c.do(ctx, http.MethodDelete, pathScripts+"?"+url.Values{"pattern": {pattern}}.Encode(), nil, nil)
}

// Scripts returns the scripts in force, the latest first, without those that are used up.
func (c *Client) Scripts(ctx context.Context) ([]Script, error) {
	var out []Script
	err := c.do(ctx, http.MethodGet, pathScripts, nil, &out)
	return out, err
}

// Record returns all commands so far, those of servers before this one with the same file too.
func (c *Client) Record(ctx context.Context) (Record, error) {
	var out Record
	err := c.do(ctx, http.MethodGet, pathExecs, nil, &out)
	return out, err
}

// errNotYet says that a record is not yet what was waited for.
var errNotYet = errors.New("the record is not there yet")

// AwaitRecord returns the record once enough holds for it, or the record of last and an error at the end of ctx. A server
// that does not answer is asked again.
func (c *Client) AwaitRecord(ctx context.Context, enough func(Record) bool) (Record, error) {
	var record Record
	err := await(ctx, func(ctx context.Context) error {
		last, err := c.Record(ctx)
		if err != nil {
			return err
		}
		if record = last; !enough(last) {
			return errNotYet
		}
		return nil
	})
	return record, err
}

// await repeats try until it returns nil.
func await(ctx context.Context, try func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		if err := try(ctx); errors.Is(err, ErrNoClient) {
			return false, err
		} else if err != nil {
			if ctx.Err() == nil || last == nil {
				last = err
			}
			return false, nil
		}
		return true, nil
	})
	if err == nil || errors.Is(err, ErrNoClient) {
		return err
	}
	return errors.Join(fmt.Errorf("await: %w", context.Cause(ctx)), last)
}

func (c *Client) do(ctx context.Context, method, path string, in, out any) error {
	if c == nil || c.http == nil {
		return ErrNoClient
	}
	data, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("kubelet %s %s: %w", method, path, err)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://kubelet"+path, bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("kubelet %s %s: %w", method, path, err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("kubelet: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("kubelet %s %s: %w", method, path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("kubelet %s %s: %s: %s", method, path, resp.Status, strings.TrimSpace(string(body)))
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("kubelet %s %s: %w", method, path, err)
	}
	return nil
}
