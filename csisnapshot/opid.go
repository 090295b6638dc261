package csisnapshot

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// ActionName is the name under which the operations of snapshots are recorded.
const ActionName = "sheetanchor.io/csi-snapshot"

// notCreated stands for the start of a snapshot that was never created.
const notCreated = "not-created"

// OperationID is the ID of a snapshot's operation: NAMESPACE/NAME/START, the start in UTC as RFC 3339, or "not-created" for
// the zero time. The start is the snapshot's creation time as the API server tells it: to [Action], a snapshot that was
// created later is another one that has the name now.
func OperationID(ref Ref, started time.Time) string {
	if started.IsZero() {
		return ref.String() + "/" + notCreated
	}
	return ref.String() + "/" + started.UTC().Format(time.RFC3339)
}

// ParseOperationID is the snapshot that an operation ID names. Its errors name the ID and the part at fault.
func ParseOperationID(id string) (Ref, error) {
	parts := strings.Split(id, "/")
	if len(parts) != 3 {
		return Ref{}, fmt.Errorf("operation ID %q: want NAMESPACE/NAME/START", id)
	}
	if msgs := validation.IsDNS1123Label(parts[0]); len(msgs) > 0 {
		return Ref{}, fmt.Errorf("operation ID %q: namespace %q: %s", id, parts[0], msgs[0])
	}
	if msgs := validation.IsDNS1123Subdomain(parts[1]); len(msgs) > 0 {
		return Ref{}, fmt.Errorf("operation ID %q: name %q: %s", id, parts[1], msgs[0])
	}
	if _, err := time.Parse(time.RFC3339, parts[2]); err != nil && parts[2] != notCreated {
		return Ref{}, fmt.Errorf("operation ID %q: start: %w", id, err)
	}
	return Ref{Namespace: parts[0], Name: parts[1]}, nil
}

// isNewer reports whether the snapshot was created after the operation's own, to the second. Fakes may give no time.
func isNewer(vs Snapshot, id string) bool {
	start, err := time.Parse(time.RFC3339, id[strings.LastIndex(id, "/")+1:])
	if err != nil { // its own was never created
		start = time.Time{}
	}
	return !vs.Created.IsZero() && vs.Created.Truncate(time.Second).After(start)
}
