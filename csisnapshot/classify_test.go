package csisnapshot_test

import (
	"strings"
	"testing"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

func TestGRPCCode(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ reason, text, want string }{
		"first call":     {"as the sidecar writes it", invalid, "InvalidArgument"},
		"quoted error":   {"the driver's own answer comes first", "rpc error: code = Internal desc = rpc error: code = NotFound desc = x", "Internal"},
		"no code":        {"", "cannot get claim from snapshot", ""},
		"unknown code":   {"drivers may write anything", "rpc error: code = Code(99) desc = x", ""},
		"invented code":  {"a name that gRPC does not have", "rpc error: code = Busy desc = x", ""},
		"nothing at all": {"", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := csisnapshot.GRPCCode(tt.text); got != tt.want {
				t.Errorf("GRPCCode(%q) = %q, want %q: %s", tt.text, got, tt.want, tt.reason)
			}
		})
	}
}

func FuzzGRPCCode(f *testing.F) {
	f.Add(invalid)
	f.Add("rpc error: code = ")
	f.Fuzz(func(t *testing.T, text string) {
		if code := csisnapshot.GRPCCode(text); code != "" && !strings.Contains(text, "code = "+code) {
			t.Errorf("GRPCCode(%q) = %q, which is not in it", text, code)
		}
	})
}

func TestClassifiersPerDriver(t *testing.T) {
	t.Parallel()
	// snap-11 S6: two drivers with the same text are classified differently in one wait.
	c := csisnapshot.PerDriver(map[string]csisnapshot.Classifier{
		"mayastor": csisnapshot.FinalCodes("ResourceExhausted"),
		"ceph":     nil,
	}, csisnapshot.FinalCodes("InvalidArgument"))
	for _, tt := range []struct {
		driver, code string
		final        bool
	}{
		{"mayastor", "ResourceExhausted", true},
		{"mayastor", "InvalidArgument", false},
		{"ceph", "ResourceExhausted", false},
		{"other", "InvalidArgument", true},
		{"other", "", false},
	} {
		if got := c.Classify(csisnapshot.ErrorInfo{Driver: tt.driver, Code: tt.code}).Final; got != tt.final {
			t.Errorf("%s %s: final %v, want %v", tt.driver, tt.code, got, tt.final)
		}
	}
	if got := csisnapshot.PerDriver(nil, nil).Classify(csisnapshot.ErrorInfo{Code: "Internal"}); got != (csisnapshot.Verdict{}) {
		t.Errorf("no classifier: %+v, want nothing final", got)
	}
}

func TestWaitOptionsAreValidated(t *testing.T) {
	t.Parallel()
	err := csisnapshot.WaitOptions{
		Mode: 7, Timeout: -1, SafetyRead: -1, Schedule: csisnapshot.Schedule{Fast: -1},
		Classifier: csisnapshot.PerDriver(map[string]csisnapshot.Classifier{"d": csisnapshot.FinalCodes("Nonsense")}, nil),
	}.Validate()
	for _, field := range []string{"Wait.Mode", "Wait.Timeout", "Wait.SafetyRead", "Schedule.Fast", "driver d", `"Nonsense"`} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("Validate() = %v, does not name %s", err, field)
		}
	}
	if err := (csisnapshot.WaitOptions{}).Validate(); err != nil {
		t.Errorf("zero options: %v", err)
	}
}
