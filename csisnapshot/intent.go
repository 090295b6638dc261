package csisnapshot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Document is a small durable document, here the one that holds freeze intents. It belongs to one workflow: two Cuts that
// run at the same time must not share one. operations.Slot implements it on any store of package operations.
type Document interface {
	// Load returns the content, or nil and no error when the document does not exist.
	Load(ctx context.Context) ([]byte, error)
	// Save replaces the content, which is durable when it returns nil.
	Save(ctx context.Context, data []byte) error
}

// ErrIntents says that the document of freeze intents cannot be read, understood or written. Nothing is frozen then,
// and a document that cannot be understood is left as it is.
var ErrIntents = errors.New("freeze intents")

// intentVersion is the version of the document's format. A document of another version is refused.
const intentVersion = 1

// maxIntentBytes is the largest document that is read.
const maxIntentBytes = 4 << 20

// intent says that a pod may be frozen. It is saved before the pod's first pre hook starts and gets its thaw record
// after the last post hook ended.
type intent struct {
	Namespace string    `json:"namespace"`
	Pod       string    `json:"pod"`
	PodUID    types.UID `json:"podUID"`
	// Hook is the name of the first pre hook, for people.
	Hook     string      `json:"hook,omitempty"`
	Owner    intentOwner `json:"owner"`
	FrozenAt time.Time   `json:"frozenAt"`
	ThawedAt time.Time   `json:"thawedAt,omitzero"`
	// Outcome says how the intent ended when no post hook could run, as "pod gone".
	Outcome string `json:"outcome,omitempty"`
}

// intentOwner is the owner whose run froze the pod.
type intentOwner struct {
	UID       types.UID `json:"uid"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name,omitempty"`
}

// open reports whether the pod may still be frozen.
func (i intent) open() bool { return i.ThawedAt.IsZero() }

// ref names the pod.
func (i intent) ref() PodRef { return PodRef{Namespace: i.Namespace, Name: i.Pod, UID: i.PodUID} }

// intentFile is the document.
type intentFile struct {
	Version int      `json:"version"`
	Intents []intent `json:"intents"`
}

// decodeIntents reads a document. Empty data is a document without intents.
func decodeIntents(data []byte) ([]intent, error) {
	if len(data) == 0 {
		return nil, nil
	}
	if len(data) > maxIntentBytes {
		return nil, fmt.Errorf("%w: %d bytes, more than %d", ErrIntents, len(data), maxIntentBytes)
	}
	var f intentFile
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&f); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrIntents, err)
	}
	if dec.More() {
		return nil, fmt.Errorf("%w: more than one document", ErrIntents)
	}
	if f.Version != intentVersion {
		return nil, fmt.Errorf("%w: format version %d, this release knows %d", ErrIntents, f.Version, intentVersion)
	}
	seen := make(map[types.UID]bool, len(f.Intents))
	for n, i := range f.Intents {
		switch {
		case i.Namespace == "" || i.Pod == "" || i.PodUID == "":
			return nil, fmt.Errorf("%w: entry %d: namespace, pod and podUID are required", ErrIntents, n)
		case seen[i.PodUID]:
			return nil, fmt.Errorf("%w: entry %d: pod UID %s is there twice", ErrIntents, n, i.PodUID)
		}
		seen[i.PodUID] = true
	}
	return f.Intents, nil
}

// encodeIntents writes a document.
func encodeIntents(intents []intent) ([]byte, error) {
	if intents == nil {
		intents = []intent{}
	}
	data, err := json.MarshalIndent(intentFile{Version: intentVersion, Intents: intents}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrIntents, err)
	}
	return append(data, '\n'), nil
}
