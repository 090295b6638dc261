package finalize

import (
	"context"
	"strconv"
	"time"
)

// Policy says what a hook's failure means for the backup or restore. Hooks that come after it run in any case.
type Policy uint8

// The policies, the default first.
const (
	// PartiallyFail counts the failure as errors.
	PartiallyFail Policy = iota
	// Warn counts the failure as warnings.
	Warn
	// Fail counts the failure as errors and makes the report fatal.
	Fail
)

// String returns the policy's name for people.
func (p Policy) String() string {
	switch p {
	case PartiallyFail:
		return "partially fail"
	case Warn:
		return "warn"
	case Fail:
		return "fail"
	}
	return "policy " + strconv.Itoa(int(p))
}

// Hook is one of the last steps.
//
// Run does the work. It may be called again after a crash that came between its end and the record of it, so it must be
// idempotent. It is called with a context that ends after Timeout and carries the [SoFar] report; two calls of one hook
// never overlap, calls of different hooks do. What it returns decides: nil is success, [Later] is a call to come, an error
// made by [Warning] is success with warnings, anything else is a failure. Faults of single objects are told apart with
// [Item] and errors.Join. A panic is a failure.
type Hook struct {
	// Name is unique among the hooks and stable over releases: checkpoints are kept by it. Required.
	Name string
	// After names the hooks that must have ended, in whatever way, before this one starts.
	After []string
	// Needs names the hooks that must have succeeded. If one has not, this one is skipped, which counts as its failure.
	Needs []string
	// Timeout bounds one call of Run. Zero: 10 minutes.
	Timeout time.Duration
	// OnFailure is the hook's policy. Defaults to PartiallyFail.
	OnFailure Policy
	// Retries is how often Run is called again after a failure that is not [Permanent], after 1 s, 2 s, 4 s … 30 s. Zero:
	// never.
	Retries int
	// Run does the work. Required.
	Run func(ctx context.Context) error

	faults []argumentFault // of a ready-made hook
}

const (
	defaultTimeout = 10 * time.Minute
	firstBackoff   = time.Second
	maxBackoff     = 30 * time.Second
)

func (h Hook) timeout() time.Duration {
	if h.Timeout == 0 {
		return defaultTimeout
	}
	return h.Timeout
}

// backoff is the pause after the given number of failures.
func backoff(failures int) time.Duration {
	d := firstBackoff
	for range failures - 1 {
		d = min(2*d, maxBackoff)
	}
	return d
}
