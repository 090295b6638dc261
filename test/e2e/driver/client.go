package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/sheetanchor/sheetanchor/test/e2e/internal/unixsocket"
)

// Client speaks to the control endpoint of a driver, also over its restarts. Make it with [NewClient]; it may be used by
// several goroutines. The methods of a nil or zero Client return [ErrNoClient]. Every error names the operation; it wraps a [*ControlError] if the driver answered.
type Client struct {
	http *http.Client
}

// ErrNoClient says that a [Client] was not made by [NewClient].
var ErrNoClient = errors.New("no driver client: NewClient makes one")

// ControlError is an answer of the control endpoint that is not a success.
type ControlError struct {
	Status int    // the HTTP status; 400 for a wrong request
	Text   string // what the driver says
}

// Error returns the text of the driver.
func (e *ControlError) Error() string { return e.Text }

// NewClient returns a client of the control endpoint "unix:///absolute/path". Nothing is asked yet: [Client.Ready] does.
// It returns an error for another form of endpoint.
func NewClient(control string) (*Client, error) {
	path, err := unixsocket.Path(control)
	if err != nil {
		return nil, fmt.Errorf("driver client: %w", err)
	}
	return &Client{http: &http.Client{Transport: unixsocket.Transport(path)}}, nil
}

// Close closes connections that are not in use.
func (c *Client) Close() {
	if c != nil && c.http != nil {
		c.http.CloseIdleConnections()
	}
}

// Ready returns nil if the driver answers.
func (c *Client) Ready(ctx context.Context) error {
	return c.do(ctx, "driver ready", http.MethodGet, "/healthz", nil, nil)
}

// SetScript sets the script for the claims that match the pattern, as [Rule] says, for calls from now on and for those that
// hang. A script that is set later goes before; one with the same pattern is replaced. A snapshot whose cut has begun
// keeps its times.
func (c *Client) SetScript(ctx context.Context, pattern string, script Script) error {
	return c.do(ctx, fmt.Sprintf("set script of %q", pattern), http.MethodPut, "/rules", Rule{Pattern: pattern, Script: script}, nil)
}

// ClearScripts removes the scripts of those patterns, all without any. Calls that hang go on if no other script lets them hang.
func (c *Client) ClearScripts(ctx context.Context, patterns ...string) error {
	return c.do(ctx, "clear scripts", http.MethodDelete, "/rules?"+url.Values{"pattern": patterns}.Encode(), nil, nil)
}

// Rules returns the scripts in the order they were set.
func (c *Client) Rules(ctx context.Context) ([]Rule, error) {
	return get[[]Rule](ctx, c, "list scripts", "/rules")
}

// SetLimit limits the calls of a method, such as "CreateSnapshot".
func (c *Client) SetLimit(ctx context.Context, method string, limit Limit) error {
	return c.do(ctx, fmt.Sprintf("set limit of %q", method), http.MethodPut, "/limits/"+url.PathEscape(method), limit, nil)
}

// ClearLimit lifts the limit of a method.
func (c *Client) ClearLimit(ctx context.Context, method string) error {
	return c.do(ctx, fmt.Sprintf("clear limit of %q", method), http.MethodDelete, "/limits/"+url.PathEscape(method), nil, nil)
}

// Limits returns the limits by method.
func (c *Client) Limits(ctx context.Context) (map[string]Limit, error) {
	return get[map[string]Limit](ctx, c, "list limits", "/limits")
}

// Volumes returns the volumes that the driver holds, by claim and name.
func (c *Client) Volumes(ctx context.Context) ([]Volume, error) {
	return get[[]Volume](ctx, c, "list volumes", "/volumes")
}

// Snapshots returns the snapshots that the driver holds, those of groups too, by name. One whose cut is under way is not there.
func (c *Client) Snapshots(ctx context.Context) ([]Snapshot, error) {
	return get[[]Snapshot](ctx, c, "list snapshots", "/snapshots")
}

// Groups returns the groups of snapshots, by name. One without members is under way, or was given up by its caller.
func (c *Client) Groups(ctx context.Context) ([]Group, error) {
	return get[[]Group](ctx, c, "list groups", "/groups")
}

// Calls returns the calls that the filter chooses, in the order in which they began.
func (c *Client) Calls(ctx context.Context, filter CallFilter) ([]Call, error) {
	return get[[]Call](ctx, c, "list calls", "/calls?"+filter.query().Encode())
}

// WaitCalls waits until the filter chooses at least that many calls and returns them. It returns an error when ctx or the
// driver ends before.
func (c *Client) WaitCalls(ctx context.Context, filter CallFilter, least int) ([]Call, error) {
	q := filter.query()
	q.Set("min", strconv.Itoa(least))
	return get[[]Call](ctx, c, fmt.Sprintf("wait for %d calls", least), "/calls?"+q.Encode())
}

// Counts returns how often the driver was called.
func (c *Client) Counts(ctx context.Context) (Counts, error) {
	return get[Counts](ctx, c, "count calls", "/counts")
}

// Cuts returns every physical snapshot ever taken of the claims that match the pattern, all for "", in the order of their cuts.
func (c *Client) Cuts(ctx context.Context, pattern string) ([]Cut, error) {
	return get[[]Cut](ctx, c, fmt.Sprintf("list cuts of %q", pattern), "/cuts?"+url.Values{"claim": {pattern}}.Encode())
}

func get[T any](ctx context.Context, c *Client, operation, target string) (T, error) {
	var result T
	err := c.do(ctx, operation, http.MethodGet, target, nil, &result)
	return result, err
}

// do sends body, if any, as JSON and reads the answer into result, if any.
func (c *Client) do(ctx context.Context, operation, method, target string, body, result any) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", operation, err)
		}
	}()
	if c == nil || c.http == nil {
		return ErrNoClient
	}
	var sent io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://driver"+target, sent)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	data, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return &ControlError{Status: resp.StatusCode, Text: strings.TrimSpace(string(data))}
	case result == nil:
		return nil
	}
	return json.Unmarshal(data, result)
}
