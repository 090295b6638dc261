package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// TB is the part of testing.TB that assertions need.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
}

// AssertCounts fails t when the counts of a user since a mark, filtered, are not want, and prints the difference. It
// reports whether they are.
func (l *Log) AssertCounts(t TB, want map[string]int, since Mark, user string, only ...Filter) bool {
	t.Helper()
	got, err := l.Counts(since, user, only...)
	if err != nil {
		t.Errorf("requests of %q: %v", user, err)
		return false
	}
	if diff := Diff(want, got); diff != "" {
		t.Errorf("requests of %q differ:\n%s", user, diff)
		return false
	}
	return true
}

// Diff is a line for each count that differs, sorted by its key, and "" when none does. A key that is not there is 0.
func Diff(want, got map[string]int) string {
	var lines []string
	all := maps.Clone(want)
	if all == nil {
		all = map[string]int{}
	}
	maps.Copy(all, got)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if want[key] != got[key] {
			lines = append(lines, fmt.Sprintf("%s: want %d, got %d", key, want[key], got[key]))
		}
	}
	return strings.Join(lines, "\n")
}
