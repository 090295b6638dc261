package driver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/test/e2e/driver"
)

func TestClientErrors(t *testing.T) {
	t.Parallel()
	f := start(t, optionsIn(t.TempDir()))
	faulty := func(code string, times int) driver.Script {
		return errorScript(backuptest.DriverError{Code: "Internal"}, backuptest.DriverError{Code: code, Times: times})
	}
	set := func(pattern string, script driver.Script) func(context.Context) error {
		return func(ctx context.Context) error { return f.SetScript(ctx, pattern, script) }
	}
	limit := func(method string, l driver.Limit) func(context.Context) error {
		return func(ctx context.Context) error { return f.SetLimit(ctx, method, l) }
	}
	cases := map[string]struct {
		reason string
		call   func(context.Context) error
		want   []string
	}{
		"no pattern":      {"it names the rule", set("", driver.Script{}), []string{`set script of ""`, "pattern must be given"}},
		"bad pattern":     {"it would match nothing", set("app/[", driver.Script{}), []string{`pattern "app/["`, "syntax error"}},
		"unknown code":    {"no call can be answered with it", set("*/*", faulty("Broken", 0)), []string{"Errors[1]", `Code "Broken"`}},
		"code OK":         {"it is no error", set("*/*", faulty("OK", 0)), []string{"Errors[1]", `Code "OK"`}},
		"negative times":  {"no call is before the first", set("*/*", faulty("Internal", -1)), []string{"Errors[1]: Times -1"}},
		"bad delete code": {"it is told which list", set("*/*", driver.Refuse("Nope", "")), []string{"DeleteErrors[0]", `Code "Nope"`}},
		"negative times of cut and ready": {
			"all faults are told", set("*/*", driver.Script{Script: backuptest.Script{CutAfter: -1, ReadyAfter: -time.Second}}),
			[]string{"CutAfter -1ns", "ReadyAfter -1s"},
		},
		"the fake controller's": {
			"the real one does as it does",
			set("*/*", driver.Script{Script: backuptest.Script{Silent: true, SeesDeletion: true, LateFinalizer: 1, ErrorsOn: 1, Incidents: make([]backuptest.Incident, 1)}}),
			[]string{"Silent is for", "SeesDeletion is for", "LateFinalizer is for", "ErrorsOn is for", "Incidents is for"},
		},
		"limit of nothing": {"there is no such method", limit("Cut", driver.Limit{PerSecond: 1}), []string{`set limit of "Cut"`, `method "Cut"`}},
		"limit of zero":    {"nothing would get through: that is a script", limit("Probe", driver.Limit{}), []string{"PerSecond 0"}},
		"negative burst":   {"there is no such number of calls", limit("Probe", driver.Limit{PerSecond: 1, Burst: -1}), []string{"Burst -1"}},
		"limit that is not a number": {
			"JSON has none", limit("Probe", driver.Limit{PerSecond: math.NaN()}), []string{`set limit of "Probe"`, "NaN"},
		},
		"clear no limit": {"there is no such method", func(ctx context.Context) error { return f.ClearLimit(ctx, "Cut") }, []string{`clear limit of "Cut"`, `method "Cut"`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := tc.call(t.Context())
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("the call = %v, want an error with %q: %s", err, want, tc.reason)
				}
			}
			refusal, answered := errors.AsType[*driver.ControlError](err)
			if answered && refusal.Status != http.StatusBadRequest {
				t.Errorf("status %d, want 400", refusal.Status)
			}
		})
	}
	if got := must[[]driver.Rule](t)(f.Rules(t.Context())); len(got) != 0 {
		t.Errorf("Rules() = %v, want none", got)
	}
	if got := must[map[string]driver.Limit](t)(f.Limits(t.Context())); len(got) != 0 {
		t.Errorf("Limits() = %v, want none", got)
	}
}

// By hand the endpoint is as strict as for a Client.
func TestControlByHand(t *testing.T) {
	t.Parallel()
	opts := optionsIn(t.TempDir())
	f := start(t, opts)
	f.volume(t, "app/data")
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(opts.Control, "unix://"))
	}}
	defer transport.CloseIdleConnections()
	cases := map[string]struct {
		reason, method, target, body string
		status                       int
		want                         string
	}{
		"a script":       {"durations are nanoseconds", "PUT", "/rules", `{"Pattern":"app/*","Script":{"CutAfter":1000}}`, 200, "{}"},
		"a typing error": {"it would have no effect", "PUT", "/rules", `{"Pattern":"app/*","Script":{"CutAfterr":1}}`, 400, "CutAfterr"},
		"no JSON":        {"it says nothing", "PUT", "/limits/Probe", `x`, 400, "body:"},
		"too much":       {"nobody has such a script", "PUT", "/rules", `{"Pattern":"` + strings.Repeat("x", 1<<20) + `"}`, 400, "too large"},
		"bad after":      {"it is no number", "GET", "/calls?after=x", "", 400, "after:"},
		"bad min":        {"it is no number", "GET", "/calls?min=x", "", 400, "min:"},
		"nothing there":  {"there is no such thing", "GET", "/", "", 404, ""},
		"volumes":        {"it is JSON", "GET", "/volumes", "", 200, `"Claim":"app/data"`},
	}
	for name, tc := range cases {
		req := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), tc.method, "http://driver"+tc.target, strings.NewReader(tc.body)))
		resp := must[*http.Response](t)(transport.RoundTrip(req))
		body := must[[]byte](t)(io.ReadAll(resp.Body))
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		if resp.StatusCode != tc.status || !bytes.Contains(body, []byte(tc.want)) {
			t.Errorf("%s: %s %s = %d %s, want %d with %q: %s", name, tc.method, tc.target, resp.StatusCode, body, tc.status, tc.want, tc.reason)
		}
	}
}

func TestClientWithoutDriver(t *testing.T) {
	t.Parallel()
	if _, err := driver.NewClient("http://127.0.0.1"); err == nil || !strings.Contains(err.Error(), "driver client") {
		t.Errorf("NewClient(http) = %v, want an error", err)
	}
	c := must[*driver.Client](t)(driver.NewClient("unix://" + filepath.Join(t.TempDir(), "none")))
	defer c.Close()
	if err := c.Ready(t.Context()); !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "driver ready: ") {
		t.Errorf("Ready() = %v, want that the socket does not exist", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Cuts(ctx, "app/*"); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), `list cuts of "app/*": `) {
		t.Errorf("Cuts() = %v, want Canceled", err)
	}
}

func TestCallFilter(t *testing.T) {
	t.Parallel()
	f := start(t, optionsIn(t.TempDir()))
	a, b := f.volume(t, "app/a"), f.volume(t, "web/b")
	f.snapshot(t, "sa", a)
	f.snapshot(t, "sb", b)
	_, _ = f.CreateSnapshot(t.Context(), snapshotRequest("sa", b)) // AlreadyExists, which is asked for below
	cases := map[string]struct {
		reason string
		filter driver.CallFilter
		want   string
	}{
		"all":       {"the zero filter leaves out none", driver.CallFilter{}, "1 2 3 4 5"},
		"by method": {"volumes are made by another one", driver.CallFilter{Method: "CreateSnapshot"}, "3 4 5"},
		"by claim":  {"the claim is that of the volume", driver.CallFilter{Claim: "web/*"}, "2 4 5"},
		"by name":   {"the name is that of the request", driver.CallFilter{Name: "sa"}, "3 5"},
		"by code":   {"one call failed", driver.CallFilter{Code: "AlreadyExists"}, "5"},
		"after":     {"a Seq is a mark", driver.CallFilter{After: 3, Answered: true}, "4 5"},
		"by two":    {"both must fit", driver.CallFilter{Claim: "web/b", Name: "sa", Code: "OK"}, ""},
	}
	for name, tc := range cases {
		var got []string
		for _, c := range must[[]driver.Call](t)(f.Calls(t.Context(), tc.filter)) {
			got = append(got, fmt.Sprint(c.Seq))
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: Calls(%+v) = %v, want %s: %s", name, tc.filter, got, tc.want, tc.reason)
		}
	}
}
