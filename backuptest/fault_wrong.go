package backuptest

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/sheetanchor/sheetanchor/internal/apirequest"
)

// verbs are those that a pattern may name.
var verbs = []string{
	apirequest.VerbGet, apirequest.VerbList, apirequest.VerbWatch, apirequest.VerbCreate, apirequest.VerbUpdate, apirequest.VerbPatch,
	apirequest.VerbDelete, apirequest.VerbDeleteCollection, verbWrite,
}

// verbWrite stands for every verb that changes something.
const verbWrite = "write"

// wrong says what of a pattern can match no request, because it is written as no request is.
func (r Request) wrong() error {
	var errs []error
	if r.Verb != "" && !slices.Contains(verbs, r.Verb) {
		errs = append(errs, fmt.Errorf("verb %q: want one of %s", r.Verb, strings.Join(verbs, ", ")))
	}
	resource, _, _ := strings.Cut(r.Resource, "/")
	if resource != strings.ToLower(resource) || strings.ContainsAny(resource, ". ") || resource == "" && r.Resource != "" {
		errs = append(errs, fmt.Errorf(`resource %q: want a plural without its group, such as "pods" or "pods/status"`, r.Resource))
	}
	return errors.Join(errs...)
}

// wrong says what is wrong with a fault that would else do nothing, or something that nobody meant.
func (f *Fault) wrong() error {
	errs := []error{
		Request{Verb: f.Verb, Resource: f.Resource}.wrong(),
		negative("Nth", f.Nth), negative("Times", f.Times), negative("For", f.For), negative("Latency", f.Latency),
		negative("RetryAfter", f.RetryAfter), negative("After", f.After),
	}
	if !(f.Chance >= 0 && f.Chance <= 1) { // which a NaN is not
		errs = append(errs, fmt.Errorf("field Chance: %v is not between 0 and 1", f.Chance))
	}
	if f.Code != 0 && (f.Code < http.StatusBadRequest || f.Code > 599) {
		errs = append(errs, fmt.Errorf("field Code: %d is no error: want 400 to 599", f.Code))
	}
	if f.Action > FaultStale {
		errs = append(errs, fmt.Errorf("field Action: %d is unknown", f.Action))
	}
	if f.Action == FaultNone && f.Code == 0 && (f.Reason != "" || f.Message != "" || f.RetryAfter > 0) {
		errs = append(errs, errors.New("field Code: a Reason, Message or RetryAfter needs one"))
	}
	if only := f.Action.only(); only != nil && f.Verb != "" && !slices.Contains(only, f.Verb) {
		errs = append(errs, fmt.Errorf("field Action: it does nothing to %q, only to %s", f.Verb, strings.Join(only, ", ")))
	}
	return errors.Join(errs...)
}

// only returns the verbs of the requests that an action acts on, and nil for any.
func (a FaultAction) only() []string {
	switch a {
	case FaultEndWatch, FaultExpireWatch, FaultLoseEvent, FaultSilenceWatch, FaultLoseBookmarks:
		return []string{apirequest.VerbWatch}
	case FaultStale:
		return []string{apirequest.VerbGet, apirequest.VerbList}
	case FaultTrickle:
		return slices.DeleteFunc(slices.Clone(verbs), func(verb string) bool { return verb == apirequest.VerbWatch })
	default:
		return nil
	}
}

// negative is an error if a field's value is.
func negative[N ~int | ~int64](field string, value N) error {
	if value >= 0 {
		return nil
	}
	return fmt.Errorf("field %s: %v is negative", field, value)
}
