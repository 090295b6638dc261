package backuptest_test

import (
	"math"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

// B1: a fault that could never act is told, by its field, to whoever sends a request; it does not look like a system that rode
// out the trouble.
func TestWrongFaults(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fault backuptest.Fault
		want  string
	}{
		"unknown verb":         {backuptest.Fault{Verb: "creat", Code: 500}, `verb "creat"`},
		"verb of HTTP":         {backuptest.Fault{Verb: "POST", Code: 500}, `verb "POST"`},
		"kind for resource":    {backuptest.Fault{Resource: "Pod", Code: 500}, `resource "Pod"`},
		"resource and group":   {backuptest.Fault{Resource: "deployments.apps", Code: 500}, `resource "deployments.apps"`},
		"subresource alone":    {backuptest.Fault{Resource: "/status", Code: 500}, `resource "/status"`},
		"negative nth":         {backuptest.Fault{Nth: -1, Code: 500}, "Nth"},
		"negative times":       {backuptest.Fault{Times: -1, Code: 500}, "Times"},
		"negative for":         {backuptest.Fault{For: -time.Second, Code: 500}, "For: -1s"},
		"negative latency":     {backuptest.Fault{Latency: -time.Second}, "Latency"},
		"negative retry":       {backuptest.Fault{Code: 429, RetryAfter: -1}, "RetryAfter"},
		"negative after":       {backuptest.Fault{Action: backuptest.FaultEndWatch, After: -1}, "After"},
		"chance above one":     {backuptest.Fault{Code: 500, Chance: 20}, "Chance: 20"},
		"chance of no number":  {backuptest.Fault{Code: 500, Chance: math.NaN()}, "Chance"},
		"code of a success":    {backuptest.Fault{Code: 200}, "Code: 200"},
		"unknown action":       {backuptest.Fault{Action: 99}, "Action: 99"},
		"message without code": {backuptest.Fault{Message: "denied"}, "Code"},
		"watch fault of a get": {backuptest.Fault{Verb: "get", Action: backuptest.FaultLoseEvent}, `Action: it does nothing to "get"`},
		"stale write":          {backuptest.Fault{Verb: "write", Action: backuptest.FaultStale}, `Action: it does nothing to "write"`},
		"trickling watch":      {backuptest.Fault{Verb: "watch", Action: backuptest.FaultTrickle}, `Action: it does nothing to "watch"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, err := backuptest.Start(backuptest.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer cluster.Close()
			cluster.Fault(backuptest.Fault{Code: 403}) // which must not hide it
			remove := cluster.Fault(tc.fault)
			configMaps := kubernetes.NewForConfigOrDie(cluster.Config()).CoreV1().ConfigMaps("app")
			if _, err := configMaps.List(t.Context(), metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), "set fault: ") || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("List = %v, want that it names %s", err, tc.want)
			}
			remove()
			if _, err := configMaps.List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
				t.Errorf("List after the fault's end = %v, want what the other fault says", err)
			}
		})
	}
}

// B3: a check by a pattern that no request can match does not pass.
func TestWrongPatterns(t *testing.T) {
	t.Parallel()
	var log backuptest.Log
	for name, check := range map[string]func(backuptest.Request) error{
		"none":    log.None,
		"at most": func(r backuptest.Request) error { return log.AtMost(1, r) },
		"only":    func(r backuptest.Request) error { return log.Only(r, backuptest.Request{Verb: "get"}) },
	} {
		for text, pattern := range map[string]backuptest.Request{
			`verb "creates"`: {Verb: "creates"}, `resource "Pods"`: {Verb: "get", Resource: "Pods"},
		} {
			if err := check(pattern); err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s = %v, want that it names %s", name, err, text)
			}
		}
		if err := check(backuptest.Request{Verb: "write", Resource: "pods/status"}); err != nil {
			t.Errorf("%s = %v of a good pattern and no requests", name, err)
		}
	}
}

// B1: a status that a fault makes is what a real server answers with that code: clients tell them apart by the reason.
func TestFaultStatuses(t *testing.T) {
	t.Parallel()
	is := func(reason metav1.StatusReason, text string) func(error) bool {
		return func(err error) bool {
			return apierrors.ReasonForError(err) == reason && strings.Contains(err.Error(), text)
		}
	}
	tests := map[string]struct {
		reason string
		code   int
		verb   string
		check  func(error) bool
	}{
		"conflict":      {"a stale update", 409, "update", is(metav1.StatusReasonConflict, `configmaps "one": the object has been modified`)},
		"exists":        {"a create never conflicts otherwise", 409, "create", is(metav1.StatusReasonAlreadyExists, `configmaps "one" already exists`)},
		"forbidden":     {"it says who may not do what", 403, "update", is(metav1.StatusReasonForbidden, `configmaps "one" is forbidden: User "op" cannot update resource "configmaps" in API group "" in the namespace "app"`)},
		"may not make":  {"permissions come before the body", 403, "create", is(metav1.StatusReasonForbidden, `configmaps is forbidden: User "op" cannot create`)},
		"gone":          {"reflectors look for this reason", 410, "list", is(metav1.StatusReasonExpired, "too old")},
		"not found":     {"with the object's name", 404, "update", is(metav1.StatusReasonNotFound, `configmaps "one" not found`)},
		"throttled":     {"as priority and fairness does", 429, "update", is(metav1.StatusReasonTooManyRequests, "Too many requests")},
		"broken":        {"as of a storage in trouble", 500, "update", is(metav1.StatusReasonInternalError, "Internal error occurred: ")},
		"unavailable":   {"as of a server that ends", 503, "update", is(metav1.StatusReasonServiceUnavailable, "unable to handle")},
		"timeout":       {"as of a request that took too long", 504, "update", is(metav1.StatusReasonTimeout, "Timeout: ")},
		"unprocessable": {"its text depends on the object", 422, "update", is(metav1.StatusReasonInvalid, "")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := backuptest.New(t)
			cluster.Fault(backuptest.Fault{Verb: tc.verb, Code: tc.code})
			config := cluster.Config()
			config.Impersonate.UserName = "op"
			configMaps := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("app")
			var err error
			switch tc.verb {
			case "create":
				_, err = configMaps.Create(t.Context(), configMap("one", nil), metav1.CreateOptions{})
			case "list":
				_, err = configMaps.List(t.Context(), metav1.ListOptions{})
			default:
				_, err = configMaps.Update(t.Context(), configMap("one", nil), metav1.UpdateOptions{})
			}
			if !tc.check(err) {
				t.Errorf("%s = %v (reason %q): %s", tc.verb, err, apierrors.ReasonForError(err), tc.reason)
			}
		})
	}
}

// B1: a restart that takes no time refuses nothing, and is over after two seconds.
func TestRestartAtOnce(t *testing.T) {
	t.Parallel()
	for _, down := range []time.Duration{0, -time.Second} {
		inBubble(t, backuptest.Options{}, func(c clients) {
			t := c.t
			c.cluster.Restart(down)
			if err := create(t.Context(), c, "one"); !apierrors.IsForbidden(err) {
				t.Errorf("create after a restart of %v = %v, want forbidden", down, err)
			}
			time.Sleep(2 * time.Second)
			if err := create(t.Context(), c, "one"); err != nil {
				t.Errorf("create two seconds after a restart of %v = %v", down, err)
			}
		})
	}
}

// B1: a stale read is one of the same form: metadata stays metadata.
func TestStaleReadsOfForms(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		created(t, c, "one")
		c.cluster.Fault(backuptest.Fault{Resource: "configmaps", Action: backuptest.FaultStale})
		for accept, want := range map[string]string{
			"application/json": `"kind":"ConfigMap"`,
			"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1": `"kind":"PartialObjectMetadata"`,
			"application/json;as=Table;g=meta.k8s.io;v=v1":                 `"kind":"Table"`,
		} {
			for range 2 {
				got, err := c.core.CoreV1().RESTClient().Get().Namespace("app").Resource("configmaps").Name("one").SetHeader("Accept", accept).Do(t.Context()).Raw()
				if err != nil || !strings.Contains(string(got), want) {
					t.Errorf("%s = %s, %v, want %s", accept, got, err, want)
				}
			}
		}
	})
}
