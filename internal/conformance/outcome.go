package conformance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// outcome writes what happened, without what differs between two runs.
func (r *run) outcome(ctx context.Context) (string, error) {
	recorded, err := r.recorded(ctx)
	if err != nil {
		return "", err
	}
	names, err := r.renames(ctx)
	if err != nil {
		return "", err
	}
	r.record.mu.Lock()
	defer r.record.mu.Unlock()
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(r.record.columns)) {
		parts = append(parts, anonymous(describe(key, r.record.columns[key]), names))
	}
	slices.Sort(parts) // by their names, which may have been replaced
	parts = slices.Compact(parts)
	if len(recorded) > 0 {
		parts = append(parts, "events\n  "+strings.Join(recorded, "\n  ")+"\n")
	}
	return strings.Join(parts, "\n"), nil
}

// renames adds the handles of the volumes to what is replaced.
func (r *run) renames(ctx context.Context) (map[string]string, error) {
	names := maps.Clone(r.names)
	names[r.namespace] = "NAMESPACE"
	list, err := r.Client.Resource(volumes).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list volumes: %w", err)
	}
	for i := range list.Items {
		if text(&list.Items[i], "spec", "claimRef", "namespace") == r.namespace {
			names[text(&list.Items[i], "spec", "csi", "volumeHandle")] = "VOLUMEHANDLE"
			names[list.Items[i].GetName()] = "VOLUME"
		}
	}
	return names, nil
}

// drifting are events that come or not as two workers of the real controller meet.
var drifting = []string{"SnapshotFinalizerError", "SnapshotStatusUpdateFailed", "ErrorPVCFinalizer", "GroupSnapshotFinalizerError"}

// recorded are the events about snapshots and contents of the scenario, each once.
func (r *run) recorded(ctx context.Context) ([]string, error) {
	var lines []string
	if r.scenario.noEvents {
		return nil, nil
	}
	for _, namespace := range []string{r.namespace, metav1.NamespaceDefault} {
		list, err := r.Client.Resource(events).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("list events: %w", err)
		}
		for i := range list.Items {
			event := &list.Items[i]
			kind := text(event, "involvedObject", "kind")
			if !strings.HasPrefix(kind, "Volume") || slices.Contains(slices.Concat(drifting, r.scenario.mayMiss), text(event, "reason")) {
				continue
			}
			where := "NAMESPACE"
			if namespace == metav1.NamespaceDefault {
				if where = metav1.NamespaceDefault; !r.ours(text(event, "involvedObject", "name")) {
					continue
				}
			}
			lines = append(lines, fmt.Sprintf("%s %s on %s in %s", text(event, "type"), text(event, "reason"), kind, where))
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines), nil
}

// ours reports whether a content of that name was seen.
func (r *run) ours(name string) bool {
	r.record.mu.Lock()
	defer r.record.mu.Unlock()
	for _, c := range r.record.columns {
		for _, version := range c.versions {
			if version != nil && version.GetNamespace() == "" && version.GetName() == name {
				return true
			}
		}
	}
	return false
}

// Diff shows two outcomes line by line, with the lines that only one has marked - (want) and + (got).
func Diff(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	// common[i][j] is the length of the longest common rest of a[i:] and b[j:].
	common := make([][]int, len(a)+1)
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i, left := range slices.Backward(a) {
		for j, right := range slices.Backward(b) {
			if left == right {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out strings.Builder
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			fmt.Fprintf(&out, "  %s\n", a[i])
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			fmt.Fprintf(&out, "- %s\n", a[i])
			i++
		default:
			fmt.Fprintf(&out, "+ %s\n", b[j])
			j++
		}
	}
	return out.String()
}
