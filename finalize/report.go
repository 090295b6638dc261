package finalize

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// State is where a hook stands.
type State string

// The closed set of states. The last four are ends.
const (
	// Pending hooks have not been called, or have failed and will be called again.
	Pending State = "pending"
	// Waiting hooks have said [Later].
	Waiting State = "waiting"
	// Succeeded hooks have done their work, maybe with warnings.
	Succeeded State = "succeeded"
	// Failed hooks have used up their retries or their time.
	Failed State = "failed"
	// Abandoned hooks ignored the end of their context; their late result is dropped.
	Abandoned State = "abandoned"
	// Skipped hooks needed one that has not succeeded.
	Skipped State = "skipped"
)

// Ended reports whether the state is an end.
func (s State) Ended() bool {
	return s == Succeeded || s == Failed || s == Abandoned || s == Skipped
}

// Report lists every hook, in an order that depends on nothing but the hooks' definitions. It is plain data.
type Report struct {
	// Hooks are all of them, those that have not ended too.
	Hooks []HookReport
	// Started is when the work began, by the clock of the process that began it; zero when that could not be read.
	Started time.Time
	// CheckpointErr is why the checkpoint could not be read or written until Options.MaxTotal ended the attempts. It is
	// [ErrCheckpoint]. Nil otherwise.
	CheckpointErr error
}

// HookReport says what became of one hook.
type HookReport struct {
	Name   string
	State  State
	Policy Policy
	// Attempts counts the calls that succeeded or failed; those that said [Later] or were cut off by the caller do not count.
	Attempts int
	// Duration is the time spent in those calls.
	Duration time.Duration
	// Error says in one line why the hook failed, or why the last attempt did while it is pending, or what it waits for.
	Error string
	// Items are the faults, one for each object: errors of a hook that failed, and warnings of any that ended. Of more
	// than 4 MiB the rest is counted in a last one, so that a checkpoint can hold them.
	Items []Entry
}

// Entry is one fault in a report.
type Entry struct {
	// Namespace and Name are the object's, both empty for a fault of the hook as a whole.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Message   string `json:"message"`
	// Warning reports that the fault failed nothing.
	Warning bool `json:"warning,omitempty"`
}

// Errors counts the error entries: those of failed, abandoned and skipped hooks whose policy is not Warn, and a checkpoint
// that was given up.
func (r Report) Errors() int { return r.Results().Errors.Len() }

// Warnings counts the warning entries: those of hooks that succeeded with warnings, or failed with the policy Warn.
func (r Report) Warnings() int { return r.Results().Warnings.Len() }

// Fatal reports whether a hook with the policy Fail has ended without success.
func (r Report) Fatal() bool {
	return slices.ContainsFunc(r.Hooks, func(h HookReport) bool {
		return h.Policy == Fail && h.State.Ended() && h.State != Succeeded
	})
}

// Done reports whether every hook has ended.
func (r Report) Done() bool {
	return !slices.ContainsFunc(r.Hooks, func(h HookReport) bool { return !h.State.Ended() })
}

// Results returns the report's entries in Velero's form. An entry of an object is under its namespace, or the cluster's;
// one of a hook as a whole is Velero's own. Each message begins with the hook's name.
func (r Report) Results() Results {
	var out Results
	for _, h := range r.Hooks {
		if !h.State.Ended() {
			continue
		}
		for _, e := range h.Items {
			set := &out.Errors
			if e.Warning || h.Policy == Warn {
				set = &out.Warnings
			}
			e.addTo(set, "hook "+h.Name)
		}
	}
	if r.CheckpointErr != nil {
		out.Errors.Velero = append(out.Errors.Velero, oneLine(r.CheckpointErr.Error()))
	}
	out.Warnings.distinct()
	out.Errors.distinct()
	return out
}

// addTo appends the entry without a look at what is there, so that many are added in linear time.
func (e Entry) addTo(set *ResultSet, who string) {
	switch {
	case e.Namespace == "" && e.Name == "":
		set.Velero = append(set.Velero, who+": "+e.Message)
	case e.Namespace == "":
		set.Cluster = append(set.Cluster, fmt.Sprintf("%s: %s: %s", who, e.Name, e.Message))
	default:
		if set.Namespaces == nil {
			set.Namespaces = map[string][]string{}
		}
		set.Namespaces[e.Namespace] = append(set.Namespaces[e.Namespace], fmt.Sprintf("%s: %s/%s: %s", who, e.Namespace, e.Name, e.Message))
	}
}

// entries takes an error apart along joins and warnings.
func entries(err error, warning bool) []Entry {
	switch e := err.(type) { //nolint:errorlint // the parts of a join are wanted, not the first match in it
	case nil:
		return nil
	case *ItemError:
		return []Entry{{Namespace: e.Namespace, Name: e.Name, Message: oneLine(e.Err.Error()), Warning: warning}}
	case *warningError:
		return entries(e.err, true)
	case *permanentError:
		return entries(e.err, warning)
	case *laterError: // no fault
		return nil
	case interface{ Unwrap() []error }:
		var all []Entry
		for _, part := range e.Unwrap() {
			all = append(all, entries(part, warning)...)
		}
		return all
	}
	return []Entry{{Message: oneLine(err.Error()), Warning: warning}}
}

// failed reports whether entries hold an error.
func failed(list []Entry) bool {
	return slices.ContainsFunc(list, func(e Entry) bool { return !e.Warning })
}

// summary says the errors among entries in one line.
func summary(list []Entry) string {
	var first string
	more := -1
	for _, e := range list {
		if e.Warning {
			continue
		}
		if more++; more == 0 {
			first = e.Message
			if e.Name != "" {
				first = (&ItemError{Namespace: e.Namespace, Name: e.Name, Err: errors.New(e.Message)}).Error()
			}
		}
	}
	if more > 0 {
		return fmt.Sprintf("%s (and %d more)", first, more)
	}
	return first
}

// maxItems is how many bytes the items of one hook may have.
const maxItems = 4 << 20

// shorten returns the entries, with one that counts the others in place of those that are too many.
func shorten(list []Entry) []Entry {
	size := 0
	for i, e := range list {
		if size += len(e.Namespace) + len(e.Name) + len(e.Message) + 64; size > maxItems { // 64: keys and quotes
			rest := Entry{Message: fmt.Sprintf("%d more are left out", len(list)-i), Warning: !failed(list[i:])}
			return append(slices.Clone(list[:i]), rest)
		}
	}
	return list
}

const maxMessage = 2048

// oneLine keeps a message in one line and of a size that a checkpoint of many can hold.
func oneLine(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "") + "…"
	}
	return strings.ToValidUTF8(s, "?")
}

type soFarKey struct{}

// SoFar returns the report as it was when the hook was called whose context this is. It is false for any other context.
func SoFar(ctx context.Context) (Report, bool) {
	r, ok := ctx.Value(soFarKey{}).(Report)
	return r, ok
}
