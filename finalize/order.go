package finalize

import (
	"errors"
	"slices"
	"strings"
)

// arrange checks the hooks and returns them in the order of their report: each after those it names, else as given.
// The error joins every fault, each a [HookError].
func arrange(hooks []Hook) ([]Hook, error) {
	var faults []error
	fault := func(name, field, problem string) {
		faults = append(faults, &HookError{Hook: name, Field: field, Problem: problem})
	}
	names := make(map[string]bool, len(hooks))
	for _, h := range hooks {
		if names[h.Name] {
			fault(h.Name, "Name", "is used twice")
		}
		names[h.Name] = true
	}
	for _, h := range hooks {
		if h.Name == "" {
			fault(h.Name, "Name", "is empty")
		}
		if h.Run == nil {
			fault(h.Name, "Run", "is nil")
		}
		for _, f := range h.faults {
			fault(h.Name, f.argument, f.problem)
		}
		if h.Timeout < 0 {
			fault(h.Name, "Timeout", "is negative")
		}
		if h.Retries < 0 {
			fault(h.Name, "Retries", "is negative")
		}
		if h.OnFailure > Fail {
			fault(h.Name, "OnFailure", "is no policy: "+h.OnFailure.String())
		}
		for field, list := range map[string][]string{"After": h.After, "Needs": h.Needs} {
			for _, other := range list {
				if !names[other] {
					fault(h.Name, field, "names the unknown hook "+quote(other))
				}
			}
		}
	}
	if len(faults) > 0 {
		slices.SortStableFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
		return nil, errors.Join(faults...)
	}
	return sortHooks(hooks)
}

func sortHooks(hooks []Hook) ([]Hook, error) {
	var sorted []Hook
	placed := map[string]bool{}
	isPlaced := func(name string) bool { return placed[name] }
	for len(sorted) < len(hooks) {
		i := slices.IndexFunc(hooks, func(h Hook) bool {
			return !placed[h.Name] && !slices.ContainsFunc(h.before(), func(n string) bool { return !isPlaced(n) })
		})
		if i < 0 {
			return nil, cycle(hooks, placed)
		}
		h := hooks[i]
		h.After, h.Needs = slices.Clone(h.After), slices.Clone(h.Needs)
		placed[h.Name] = true
		sorted = append(sorted, h)
	}
	return sorted, nil
}

// before returns the names of the hooks that come before h.
func (h Hook) before() []string { return slices.Concat(h.After, h.Needs) }

// cycle finds a cycle among the hooks that could not be placed: each of them has one before it that was not either.
func cycle(hooks []Hook, placed map[string]bool) error {
	byName := map[string]Hook{}
	var name string
	for _, h := range slices.Backward(hooks) {
		byName[h.Name] = h
		if !placed[h.Name] {
			name = h.Name
		}
	}
	var path []string
	for !slices.Contains(path, name) {
		path = append(path, name)
		before := byName[name].before()
		name = before[slices.IndexFunc(before, func(n string) bool { return !placed[n] })]
	}
	path = append(path[slices.Index(path, name):], name)
	return &HookError{Hook: name, Field: "After", Problem: "comes after itself: " + strings.Join(path, " after "), cycle: true}
}
