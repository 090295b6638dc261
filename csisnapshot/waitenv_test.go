package csisnapshot_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// lookupIn is an environment with the variables.
func lookupIn(variables map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := variables[name]
		return value, ok
	}
}

func TestOptionsFromEnv(t *testing.T) {
	t.Parallel()
	// S1: every number of waiting may come from the environment.
	got, err := csisnapshot.OptionsFromEnv(lookupIn(map[string]string{
		"SHEETANCHOR_WAIT_MODE": "poll", "SHEETANCHOR_WAIT_POLL_FAST": "500ms", "SHEETANCHOR_WAIT_POLL_FAST_FOR": "20s",
		"SHEETANCHOR_WAIT_POLL_SLOW": "10s", "SHEETANCHOR_WAIT_POLL_JITTER": "0.25", "SHEETANCHOR_WAIT_TIMEOUT": "1h",
		"SHEETANCHOR_WAIT_MAX_WAIT": "2h", "SHEETANCHOR_WAIT_SAFETY_READ": "2m", "SHEETANCHOR_WAIT_RETRY_WATCH": "4m",
		"SHEETANCHOR_WAIT_CALL_TIMEOUT": "5s", "SHEETANCHOR_WAIT_UNKNOWN": "x",
	}))
	want := csisnapshot.WaitOptions{
		Mode:     csisnapshot.ModePoll,
		Schedule: csisnapshot.Schedule{Fast: 500 * time.Millisecond, FastFor: 20 * time.Second, Slow: 10 * time.Second, Jitter: 0.25},
		Timeout:  time.Hour, MaxWait: 2 * time.Hour, SafetyRead: 2 * time.Minute, RetryWatch: 4 * time.Minute, CallTimeout: 5 * time.Second,
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("OptionsFromEnv: %v, %s", err, diff)
	}
	for name, variables := range map[string]map[string]string{"not set": {}, "empty": {csisnapshot.EnvTimeout: "", csisnapshot.EnvMode: ""}} {
		if got, err := csisnapshot.OptionsFromEnv(lookupIn(variables)); err != nil || !cmp.Equal(got, csisnapshot.WaitOptions{}) {
			t.Errorf("%s: %+v, %v, want nothing set", name, got, err)
		}
	}
}

func TestOptionsFromEnvNamesWrongVariables(t *testing.T) {
	t.Parallel()
	// S1: a wrong value is an error that names its variable, one for each; the others count.
	durations := []string{
		csisnapshot.EnvPollFast, csisnapshot.EnvPollFastFor, csisnapshot.EnvPollSlow, csisnapshot.EnvTimeout, csisnapshot.EnvMaxWait,
		csisnapshot.EnvSafetyRead, csisnapshot.EnvRetryWatch, csisnapshot.EnvCallTimeout,
	}
	wrong := map[string][]string{csisnapshot.EnvMode: {"Watch", "informer", " poll"}, csisnapshot.EnvPollJitter: {"-0.1", "1.5", "NaN", "10%"}}
	for _, name := range durations {
		wrong[name] = []string{"10", "ten minutes", "0s", "-1s", " 5s", "9999999h"}
	}
	for name, values := range wrong {
		for _, value := range values {
			good := csisnapshot.EnvTimeout
			if name == good {
				good = csisnapshot.EnvMaxWait
			}
			got, err := csisnapshot.OptionsFromEnv(lookupIn(map[string]string{name: value, good: "7m"}))
			if err == nil || !strings.Contains(err.Error(), name+":") || !strings.Contains(err.Error(), fmt.Sprintf("%q", value)) {
				t.Errorf("%s=%q: %v, want an error that says both", name, value, err)
			}
			if got.Timeout+got.MaxWait != 7*time.Minute {
				t.Errorf("%s=%q: %+v, want the other variable taken", name, value, got)
			}
		}
	}
	_, err := csisnapshot.OptionsFromEnv(func(string) (string, bool) { return "?", true })
	for name := range wrong {
		if !strings.Contains(err.Error(), name+":") {
			t.Errorf("%v does not name %s", err, name)
		}
	}
	if _, err := csisnapshot.OptionsFromEnv(nil); err == nil {
		t.Error("a nil lookup is taken")
	}
}

func TestExplicitOptionsWin(t *testing.T) {
	t.Parallel()
	// S1: what is set by itself goes before the environment, field by field.
	failed := errors.New("failed")
	var told []string
	events := func(name string) csisnapshot.WaitEvents {
		return csisnapshot.WaitEvents{Changed: func(csisnapshot.Result, error) { told = append(told, name) }}
	}
	explicit := csisnapshot.WaitOptions{
		Mode: csisnapshot.ModeWatch, Timeout: time.Minute, Schedule: csisnapshot.Schedule{Slow: time.Minute},
		Classifier: csisnapshot.FinalCodes("Internal"), Events: events("explicit"),
	}
	env := csisnapshot.WaitOptions{
		Mode: csisnapshot.ModePoll, Timeout: time.Hour, MaxWait: 3 * time.Hour,
		Schedule:   csisnapshot.Schedule{Fast: 2 * time.Second, Slow: 2 * time.Minute, Jitter: 0.5},
		Classifier: csisnapshot.FinalCodes("Aborted"), Events: events("env"),
	}
	env.Events.ModeChanged = func(csisnapshot.ModeChange) { told = append(told, "mode") }
	got := explicit.Or(env)
	got.Events.Changed(csisnapshot.Result{}, failed)
	got.Events.ModeChanged(csisnapshot.ModeChange{})
	if diff := cmp.Diff([]string{"explicit", "mode"}, told); diff != "" {
		t.Errorf("events: %s", diff)
	}
	if !got.Classifier.Classify(csisnapshot.ErrorInfo{Code: "Internal"}).Final {
		t.Error("the classifier is the environment's")
	}
	got.Classifier, got.Events = nil, csisnapshot.WaitEvents{}
	want := csisnapshot.WaitOptions{
		Mode: csisnapshot.ModeWatch, Timeout: time.Minute, MaxWait: 3 * time.Hour,
		Schedule: csisnapshot.Schedule{Fast: 2 * time.Second, Slow: time.Minute, Jitter: 0.5},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	all := csisnapshot.WaitOptions{}.Or(env)
	if all.Mode != csisnapshot.ModePoll || all.Classifier == nil || all.Events.Changed == nil {
		t.Errorf("nothing explicit: %+v", all)
	}
}

func ExampleOptionsFromEnv() {
	environment := map[string]string{"SHEETANCHOR_WAIT_TIMEOUT": "30m", "SHEETANCHOR_WAIT_MODE": "poll"}
	lookup := func(name string) (string, bool) { value, ok := environment[name]; return value, ok } // os.LookupEnv in a program
	fromEnv, err := csisnapshot.OptionsFromEnv(lookup)
	explicit := csisnapshot.WaitOptions{Mode: csisnapshot.ModeWatch}
	opts := explicit.Or(fromEnv)
	fmt.Println(opts.Mode, opts.Timeout, err)

	environment["SHEETANCHOR_WAIT_TIMEOUT"] = "30"
	_, err = csisnapshot.OptionsFromEnv(lookup)
	fmt.Println(err)
	// Output:
	// watch 30m0s <nil>
	// wait options: SHEETANCHOR_WAIT_TIMEOUT: "30": no duration, want one as in 1m30s
}
