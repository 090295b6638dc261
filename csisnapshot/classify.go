package csisnapshot

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// ErrorInfo is an error in the status of a snapshot or its content, as a [Classifier] sees it.
type ErrorInfo struct {
	Driver  string        // of the volume; empty if unknown
	Kind    string        // KindSnapshot or KindContent
	Text    string        // status.error.message
	Code    string        // the gRPC code's name found in Text, as in "InvalidArgument"; empty if there is none
	Reason  string        // of the event that goes with Text, as "SnapshotCreationFailed"; empty if Text is not the stack's
	Age     time.Duration // since the wait first saw an error on this snapshot after its last progress
	Repeats int           // different errors (by text or time) seen since the last progress, at least 1
}

// The kinds of [ErrorInfo].
const (
	KindSnapshot = "VolumeSnapshot"
	KindContent  = "VolumeSnapshotContent"
)

// Verdict is a classifier's answer. The zero value means: information only, keep waiting.
type Verdict struct {
	// Retry says that the stack will get over the error: it is information only, as with the zero value, and no other
	// classifier of a [Chain] is asked.
	Retry bool
	// Final ends this snapshot's wait at once, with [ErrFinal].
	Final bool
	// RetryAfter is a time, counted from the first sight of an error after the last progress, in which no progress is
	// expected: the snapshot's clock does not run in it.
	RetryAfter time.Duration
}

// Classifier judges errors. The stack itself marks none as final, and drivers give the same code opposite meanings.
// Classify must be pure, return at once and be safe for concurrent use. A panic in it counts as the zero verdict. So does a
// call that does not return within a few seconds; it is left behind, and until it returns there is no other.
type Classifier interface {
	Classify(ErrorInfo) Verdict
}

// ClassifierFunc is a function as a [Classifier].
type ClassifierFunc func(ErrorInfo) Verdict

// Classify calls f.
func (f ClassifierFunc) Classify(e ErrorInfo) Verdict { return f(e) }

type finalCodes []string

// FinalCodes calls an error final if its text names one of these gRPC codes, as in FinalCodes("InvalidArgument",
// "OutOfRange"). Options with a name that is no gRPC code are refused.
func FinalCodes(codes ...string) Classifier { return finalCodes(slices.Clone(codes)) }

func (c finalCodes) Classify(e ErrorInfo) Verdict {
	return Verdict{Final: e.Code != "" && slices.Contains(c, e.Code)}
}

// Validate names the codes that do not exist.
func (c finalCodes) Validate() error {
	var faults []error
	for _, code := range c {
		if !slices.Contains(grpcCodes, code) {
			faults = append(faults, fmt.Errorf("FinalCodes: %q is no gRPC code, want one of %s", code, strings.Join(grpcCodes, ", ")))
		}
	}
	return errors.Join(faults...)
}

type perDriver struct {
	drivers map[string]Classifier
	other   Classifier
}

// PerDriver asks the classifier of the error's driver, and other (nil: nothing is final) for every driver without one.
func PerDriver(drivers map[string]Classifier, other Classifier) Classifier {
	return perDriver{drivers: maps.Clone(drivers), other: other}
}

func (p perDriver) Classify(e ErrorInfo) Verdict {
	c, ok := p.drivers[e.Driver]
	if !ok {
		c = p.other
	}
	if c == nil {
		return Verdict{}
	}
	return c.Classify(e)
}

// Validate passes on what the classifiers say of themselves.
func (p perDriver) Validate() error {
	var faults []error
	for _, driver := range slices.Sorted(maps.Keys(p.drivers)) {
		faults = append(faults, validateClassifier("driver "+driver, p.drivers[driver]))
	}
	return errors.Join(append(faults, validateClassifier("other drivers", p.other))...)
}

func validateClassifier(name string, c Classifier) error {
	v, ok := c.(interface{ Validate() error })
	if !ok {
		return nil
	}
	if err := v.Validate(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// grpcCodes are the names of the codes that an error can have.
var grpcCodes = []string{
	"Canceled", "Unknown", "InvalidArgument", "DeadlineExceeded", "NotFound", "AlreadyExists", "PermissionDenied",
	"ResourceExhausted", "FailedPrecondition", "Aborted", "OutOfRange", "Unimplemented", "Internal", "Unavailable",
	"DataLoss", "Unauthenticated",
}

var codePattern = regexp.MustCompile(`rpc error: code = (\w+)`)

// GRPCCode is the name of the gRPC code in an error text of the snapshot sidecar, empty if the text names none. Of
// several, the first counts: it is the driver's own answer, and what follows is an error that the driver quotes.
func GRPCCode(text string) string {
	found := codePattern.FindStringSubmatch(text)
	if found == nil || !slices.Contains(grpcCodes, found[1]) {
		return ""
	}
	return found[1]
}
