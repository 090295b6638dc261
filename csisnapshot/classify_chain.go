package csisnapshot

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Chain asks classifiers in their order and takes the first verdict that says anything: Retry, RetryAfter or Final. If none
// does, the error is information only. Nil classifiers are left out.
func Chain(classifiers ...Classifier) Classifier {
	return chain(slices.DeleteFunc(slices.Clone(classifiers), func(c Classifier) bool { return c == nil }))
}

type chain []Classifier

func (c chain) Classify(e ErrorInfo) Verdict {
	for _, one := range c {
		if v := one.Classify(e); v != (Verdict{}) {
			return v
		}
	}
	return Verdict{}
}

// Validate passes on what the classifiers say of themselves.
func (c chain) Validate() error {
	var faults []error
	for i, one := range c {
		faults = append(faults, validateClassifier(fmt.Sprintf("chain, classifier %d", i+1), one))
	}
	return errors.Join(faults...)
}

// GRPCMessage is the driver's own message in an error text of the snapshot sidecar: what follows the code that [GRPCCode]
// tells, without the sidecar's words and quotes. It is empty if the text names no code.
func GRPCMessage(text string) string {
	if GRPCCode(text) == "" {
		return ""
	}
	at := codePattern.FindStringIndex(text)
	if at[0] > 0 && text[at[0]-1] == '"' { // the sidecar quotes as Go does
		if quoted, err := strconv.QuotedPrefix(text[at[0]-1:]); err == nil {
			if plain, err := strconv.Unquote(quoted); err == nil {
				text, at = plain, codePattern.FindStringIndex(plain)
			}
		}
	}
	rest, _ := strings.CutPrefix(text[at[1]:], " desc = ")
	return strings.TrimSpace(rest)
}

// eventReasons are the reasons of the events that the stack writes together with an error, by how the text begins.
var eventReasons = []struct{ prefix, reason string }{
	{"Failed to create snapshot content with error", "SnapshotContentCreationFailed"},
	{"Failed to create snapshot:", "SnapshotCreationFailed"},
	{"Failed to check and update snapshot content:", "SnapshotContentCheckandUpdateFailed"},
	{"Failed to get snapshot class with error", "GetSnapshotClassFailed"},
	{"Failed to set default snapshot class with error", "SetDefaultSnapshotClassFailed"},
}

// EventReason is the reason of the event that the snapshot-controller or the sidecar writes together with the error text, as
// in "SnapshotCreationFailed"; empty if the text is none of theirs. The event itself says no more, and need not be read.
func EventReason(text string) string {
	for _, e := range eventReasons {
		if strings.HasPrefix(text, e.prefix) {
			return e.reason
		}
	}
	return ""
}
