package backuptest_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

// B3: the log has every request, in order, with the time, the outcome and the user, and marks cut it into parts.
func TestLog(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		start := time.Now()
		created(t, c, "one")
		c.cluster.Mark("second")
		c.cluster.Fault(backuptest.Fault{Verb: "list", Times: 1, Latency: time.Minute, Code: 500})
		c.cluster.Fault(backuptest.Fault{Verb: "delete", Action: backuptest.FaultRefuse})
		maps := c.core.CoreV1().ConfigMaps("app")
		_, _ = maps.List(t.Context(), metav1.ListOptions{})
		_, _ = maps.Get(t.Context(), "none", metav1.GetOptions{})
		_ = maps.Delete(t.Context(), "one", metav1.DeleteOptions{})
		config := c.cluster.Config()
		config.Impersonate.UserName = "reader"
		_, _ = kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})

		log := c.cluster.Log()
		var lines []string
		for _, e := range log {
			lines = append(lines, fmt.Sprint(e.At.Sub(start), " ", e.Took, " ", e))
		}
		want := []string{
			"0s 0s create configmaps app/one: 201",
			"0s 0s -- second",
			"0s 1m0s list configmaps in app: 500",
			"1m0s 0s get configmaps app/none: 404",
			"1m0s 0s delete configmaps app/one: dial tcp: connection refused",
		}
		if diff := cmp.Diff(want, lines[:min(5, len(lines))]); diff != "" {
			t.Errorf("log -want +got:\n%s", diff)
		}
		if by := log.By("reader"); len(by) != 2 || by[0].Mark != "second" || by[1].Verb != "list" {
			t.Errorf("By(reader) = %v, want the mark and its list", by)
		}
		counts := map[string]int{"list configmaps": 2, "get configmaps": 1, "delete configmaps": 1}
		if diff := cmp.Diff(counts, log.After("second").Counts()); diff != "" {
			t.Errorf("counts after the mark -want +got:\n%s", diff)
		}
		if before := log.Before("second"); len(before) != 1 || before[0].Name != "one" {
			t.Errorf("Before = %v, want the create", before)
		}
		if len(log.After("none")) != len(log) || len(log.Before("none")) != len(log) {
			t.Error("a mark that is not there cuts something off")
		}
	})
}

// B3: each check passes on what it allows, and names what it does not, sorted and counted.
func TestLogChecks(t *testing.T) {
	t.Parallel()
	entry := func(verb, resource, namespace, name string, code int) backuptest.Entry {
		return backuptest.Entry{Request: backuptest.Request{Verb: verb, Resource: resource, Namespace: namespace, Name: name}, Code: code}
	}
	log := backuptest.Log{
		entry("list", "pods", "shop", "", 200),
		{Mark: "here"},
		entry("patch", "pods/status", "shop", "db-0", 200),
		entry("create", "configmaps", "old", "b", 409),
		entry("create", "configmaps", "old", "b", 409),
		entry("create", "configmaps", "old", "a", 0),
		entry("get", "", "", "", 200),
	}
	tests := map[string]struct {
		reason string
		got    error
		want   string // empty: no error
	}{
		"writes": {
			"every verb that changes something is a write", log.NoWrites(),
			"want no write, got 4:\n\t1× create configmaps old/a: no answer yet\n\t2× create configmaps old/b: 409\n\t1× patch pods/status shop/db-0: 200",
		},
		"no writes": {"reads and marks are none", log[:2].NoWrites(), ""},
		"reviews":   {"they ask", backuptest.Log{entry("create", "selfsubjectaccessreviews", "", "", 201)}.NoWrites(), ""},
		"namespace": {
			"requests went there", log[3:5].None(backuptest.Request{Namespace: "old"}),
			"want no request like any request in old, got 2:\n\t2× create configmaps old/b: 409",
		},
		"no namespace": {"none went there", log.None(backuptest.Request{Namespace: "new"}), ""},
		"at most":      {"three creates", log.AtMost(3, backuptest.Request{Verb: "create"}), ""},
		"too many": {
			"one more than allowed", log.AtMost(0, backuptest.Request{Verb: "list", Resource: "pods"}),
			"want at most 0 of list pods, got 1:\n\t1× list pods in shop: 200",
		},
		"allowed": {"rules as a role's; discovery needs none", log.Only(
			backuptest.Request{Verb: "list", Resource: "pods"}, backuptest.Request{Resource: "pods/status"}, backuptest.Request{Verb: "create", Namespace: "old"},
		), ""},
		"not allowed": {
			"a resource does not include its status", log[:3].Only(backuptest.Request{Resource: "pods"}),
			"want only what is allowed, got 1:\n\t1× patch pods/status shop/db-0: 200",
		},
	}
	for name, tc := range tests {
		got := ""
		if tc.got != nil {
			got = tc.got.Error()
			if fault, ok := errors.AsType[*backuptest.LogError](tc.got); !ok || len(fault.Entries) == 0 {
				t.Errorf("%s: %T, want a LogError with its entries", name, tc.got)
			}
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q: %s", name, got, tc.want, tc.reason)
		}
	}
}

type recordingT []string

func (*recordingT) Helper() {}

func (r *recordingT) Errorf(format string, args ...any) {
	*r = append(*r, fmt.Sprintf(format, args...))
}

// B3: Check fails once for each error.
func TestCheck(t *testing.T) {
	t.Parallel()
	var got recordingT
	backuptest.Check(&got, nil, errors.New("one"), nil, errors.New("two"))
	if diff := cmp.Diff(recordingT{"one", "two"}, got); diff != "" {
		t.Errorf("failures -want +got:\n%s", diff)
	}
}
