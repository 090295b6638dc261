package backuptest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Log is requests in order. Its checks return an error that lists the requests at fault, or nil; [Check] turns them into
// failures of a test. In a pattern an empty field matches anything and the verb "write" every write, as in a [Fault]. A check
// by a pattern that no request can match, such as one of an unknown verb, is an error that says so.
type Log []Entry

// After returns what follows the last mark with that text; all if there is none.
func (l Log) After(mark string) Log {
	for i, e := range slices.Backward(l) {
		if e.Mark == mark {
			return l[i+1:]
		}
	}
	return l
}

// Before returns what precedes the first mark with that text; all if there is none.
func (l Log) Before(mark string) Log {
	for i, e := range l {
		if e.Mark == mark {
			return l[:i]
		}
	}
	return l
}

// Of returns the requests that match one of the patterns.
func (l Log) Of(patterns ...Request) Log {
	return l.filter(func(r Request) bool { return matchesAny(r, patterns) })
}

// By returns the requests of a user of [Cluster.ConfigFor], or of any client that impersonates the user, and the marks.
func (l Log) By(user string) Log {
	var out Log
	for _, e := range l {
		if e.Mark != "" || e.User == user {
			out = append(out, e)
		}
	}
	return out
}

// Counts returns how many requests there are, by verb and resource as in [Cluster.Requests].
func (l Log) Counts() map[string]int {
	counts := map[string]int{}
	for _, e := range l.Of(Request{}) {
		counts[strings.TrimSpace(e.Verb+" "+e.Resource)]++
	}
	return counts
}

// NoWrites is an error if a request changes objects.
func (l Log) NoWrites() error { return fault("no write", l.Of(Request{Verb: verbWrite})) }

// None is an error if a request matches the pattern, for example Request{Namespace: "old"}.
func (l Log) None(pattern Request) error {
	if err := wrongPattern(pattern); err != nil {
		return err
	}
	return fault("no request like "+pattern.String(), l.Of(pattern))
}

// AtMost is an error if more than n requests match the pattern, for example Request{Verb: "list"}.
func (l Log) AtMost(n int, pattern Request) error {
	if err := wrongPattern(pattern); err != nil {
		return err
	}
	if found := l.Of(pattern); len(found) > n {
		return fault(fmt.Sprintf("at most %d of %s", n, pattern), found)
	}
	return nil
}

// Only is an error if a request matches none of the patterns, which a test writes as it would the rules of a role.
// Requests about no resource, such as discovery, need no rule.
func (l Log) Only(patterns ...Request) error {
	if err := wrongPattern(patterns...); err != nil {
		return err
	}
	return fault("only what is allowed", l.filter(func(r Request) bool { return r.Resource != "" && !matchesAny(r, patterns) }))
}

func wrongPattern(patterns ...Request) error {
	var errs []error
	for _, p := range patterns {
		if err := p.wrong(); err != nil {
			errs = append(errs, fmt.Errorf("pattern of requests: %w", err))
		}
	}
	return errors.Join(errs...)
}

func (l Log) filter(keep func(Request) bool) Log {
	var out Log
	for _, e := range l {
		if e.Mark == "" && keep(e.Request) {
			out = append(out, e)
		}
	}
	return out
}

func matchesAny(r Request, patterns []Request) bool {
	return slices.ContainsFunc(patterns, func(p Request) bool {
		f := Fault{Verb: p.Verb, Resource: p.Resource, Namespace: p.Namespace, Name: p.Name}
		return f.matches(r, isWrite(r))
	})
}

// isWrite reports whether a request changes something. To create a review, such as a SelfSubjectAccessReview, is to ask.
func isWrite(r Request) bool {
	switch r.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return r.Resource != "" && !strings.HasSuffix(r.Resource, "reviews")
	default:
		return false
	}
}

// fault is nil without entries, else an error that lists them, sorted and counted.
func fault(want string, entries Log) error {
	if len(entries) == 0 {
		return nil
	}
	counts := map[string]int{}
	var lines []string
	for _, e := range entries {
		line := e.String()
		if counts[line]++; counts[line] == 1 {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	var text strings.Builder
	fmt.Fprintf(&text, "want %s, got %d:", want, len(entries))
	for _, line := range lines {
		fmt.Fprintf(&text, "\n\t%d× %s", counts[line], line)
	}
	return &LogError{text: text.String(), Entries: entries}
}

// LogError is what a check of a [Log] finds. Its text says what was wanted and lists what was found, sorted.
type LogError struct {
	// Entries are the requests at fault, in their order.
	Entries Log

	text string
}

// Error implements error.
func (e *LogError) Error() string { return e.text }

// Check fails a test for each error that is not nil, and lets it go on. T is a *testing.T or anything like it.
func Check(t interface {
	Helper()
	Errorf(format string, args ...any)
}, errs ...error,
) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Errorf("%v", err)
		}
	}
}
