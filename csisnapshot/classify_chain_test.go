package csisnapshot_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

func TestChain(t *testing.T) {
	t.Parallel()
	// S6 snap-9: the first classifier with an opinion decides, also with the opinion that the stack gets over it.
	final := csisnapshot.FinalCodes("InvalidArgument")
	says := func(v csisnapshot.Verdict) csisnapshot.Classifier {
		return csisnapshot.ClassifierFunc(func(csisnapshot.ErrorInfo) csisnapshot.Verdict { return v })
	}
	tests := map[string]struct {
		reason string
		chain  []csisnapshot.Classifier
		want   csisnapshot.Verdict
	}{
		"nothing":       {reason: "an error is information"},
		"nil":           {reason: "nil is left out", chain: []csisnapshot.Classifier{nil, final}, want: csisnapshot.Verdict{Final: true}},
		"no opinion":    {reason: "the next is asked", chain: []csisnapshot.Classifier{says(csisnapshot.Verdict{}), final}, want: csisnapshot.Verdict{Final: true}},
		"retry":         {reason: "an opinion, too", chain: []csisnapshot.Classifier{says(csisnapshot.Verdict{Retry: true}), final}, want: csisnapshot.Verdict{Retry: true}},
		"retry after":   {reason: "an opinion", chain: []csisnapshot.Classifier{says(csisnapshot.Verdict{RetryAfter: time.Hour}), final}, want: csisnapshot.Verdict{RetryAfter: time.Hour}},
		"of each other": {reason: "chains nest", chain: []csisnapshot.Classifier{csisnapshot.Chain(), csisnapshot.PerDriver(map[string]csisnapshot.Classifier{"d": csisnapshot.Chain(final)}, nil)}, want: csisnapshot.Verdict{Final: true}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := csisnapshot.Chain(tt.chain...).Classify(csisnapshot.ErrorInfo{Driver: "d", Code: "InvalidArgument"}); got != tt.want {
				t.Errorf("%+v, want %+v: %s", got, tt.want, tt.reason)
			}
		})
	}
	wrong := csisnapshot.WaitOptions{Classifier: csisnapshot.Chain(final, csisnapshot.FinalCodes("Nonsense"))}
	if err := wrong.Validate(); err == nil || !strings.Contains(err.Error(), "classifier 2") || !strings.Contains(err.Error(), "Nonsense") {
		t.Errorf("Validate = %v, want the second classifier named", err)
	}
}

func TestSidecarTexts(t *testing.T) {
	t.Parallel()
	// S6 snap-9: the texts of the real stack, word for word, and what is read in them.
	const taken = "failed to take snapshot of the volume vol-1: "
	tests := map[string]struct{ text, code, message, event string }{
		"first call":   {`Failed to create snapshot: ` + taken + `"rpc error: code = InvalidArgument desc = no such volume"`, "InvalidArgument", "no such volume", "SnapshotCreationFailed"},
		"later call":   {`Failed to check and update snapshot content: ` + taken + `"rpc error: code = Internal desc = try \"again\"\nsoon"`, "Internal", "try \"again\"\nsoon", "SnapshotContentCheckandUpdateFailed"},
		"quoted twice": {`Failed to create snapshot: ` + taken + `"rpc error: code = Unknown desc = rpc error: code = NotFound desc = gone"`, "Unknown", "rpc error: code = NotFound desc = gone", "SnapshotCreationFailed"},
		"deadline":     {`Failed to create snapshot: ` + taken + `"rpc error: code = DeadlineExceeded desc = context deadline exceeded"`, "DeadlineExceeded", "context deadline exceeded", "SnapshotCreationFailed"},
		"not bound":    {`Failed to create snapshot content with error failed to get input parameters to create snapshot s: "the PVC c is not yet bound to a PV, will not attempt to take a snapshot"`, "", "", "SnapshotContentCreationFailed"},
		"no class":     {`Failed to get snapshot class with error volumesnapshotclass.snapshot.storage.k8s.io "c" not found`, "", "", "GetSnapshotClassFailed"},
		"no default":   {`Failed to set default snapshot class with error cannot find default snapshot class`, "", "", "SetDefaultSnapshotClassFailed"},
		"bare":         {`rpc error: code = Aborted desc = busy`, "Aborted", "busy", ""},
		"cut off":      {`"rpc error: code = Aborted desc = bu`, "Aborted", "bu", ""},
		"no message":   {`rpc error: code = Aborted`, "Aborted", "", ""},
		"no such code": {`rpc error: code = Sleepy desc = x`, "", "", ""},
		"empty":        {},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, message, event := csisnapshot.GRPCCode(tt.text), csisnapshot.GRPCMessage(tt.text), csisnapshot.EventReason(tt.text)
			if code != tt.code || message != tt.message || event != tt.event {
				t.Errorf("%q %q %q, want %q %q %q", code, message, event, tt.code, tt.message, tt.event)
			}
		})
	}
}

func FuzzGRPCMessage(f *testing.F) {
	f.Add(`Failed: "rpc error: code = Internal desc = try \"again\""`)
	f.Add(`"rpc error: code = Aborted`)
	f.Fuzz(func(t *testing.T, text string) {
		if csisnapshot.GRPCCode(text) == "" && csisnapshot.GRPCMessage(text) != "" {
			t.Errorf("a message without a code in %q", text)
		}
	})
}

// snap-26: vSphere keeps three snapshots of a volume by default. One more never succeeds by itself, so the wait for it ends.
func ExampleClassifierFunc_snapshotLimit() {
	vsphere := csisnapshot.ClassifierFunc(func(e csisnapshot.ErrorInfo) csisnapshot.Verdict {
		full := e.Code == "FailedPrecondition" && strings.Contains(csisnapshot.GRPCMessage(e.Text), "has reached the configured maximum number of snapshots")
		return csisnapshot.Verdict{Final: full}
	})
	rules := csisnapshot.PerDriver(map[string]csisnapshot.Classifier{"csi.vsphere.vmware.com": vsphere}, nil)
	text := `Failed to create snapshot: failed to take snapshot of the volume v: ` +
		`"rpc error: code = FailedPrecondition desc = volume v has reached the configured maximum number of snapshots (3)"`
	for _, driver := range []string{"csi.vsphere.vmware.com", "ebs.csi.aws.com"} {
		fmt.Println(driver, rules.Classify(csisnapshot.ErrorInfo{Driver: driver, Text: text, Code: csisnapshot.GRPCCode(text)}).Final)
	}
	// Output:
	// csi.vsphere.vmware.com true
	// ebs.csi.aws.com false
}

// A cloud that throttles a whole subscription is given time, and an error that lasts after many tries ends the wait.
func ExampleChain() {
	throttled := csisnapshot.ClassifierFunc(func(e csisnapshot.ErrorInfo) csisnapshot.Verdict {
		if e.Code == "ResourceExhausted" || strings.Contains(e.Text, "TooManyRequests") {
			return csisnapshot.Verdict{RetryAfter: 5 * time.Minute}
		}
		return csisnapshot.Verdict{}
	})
	stubborn := csisnapshot.ClassifierFunc(func(e csisnapshot.ErrorInfo) csisnapshot.Verdict {
		return csisnapshot.Verdict{Final: e.Repeats >= 5 && e.Age > 3*time.Minute}
	})
	rules := csisnapshot.Chain(throttled, csisnapshot.FinalCodes("InvalidArgument"), stubborn)
	for _, e := range []csisnapshot.ErrorInfo{
		{Code: "ResourceExhausted", Repeats: 9, Age: time.Hour},
		{Code: "Internal", Repeats: 1},
		{Code: "Internal", Repeats: 9, Age: time.Hour},
	} {
		v := rules.Classify(e)
		fmt.Println(e.Code, v.Final, v.RetryAfter)
	}
	// Output:
	// ResourceExhausted false 5m0s
	// Internal false 0s
	// Internal true 0s
}
