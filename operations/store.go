package operations

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
)

// Store is a bucket of small documents. A name is a slash-separated relative path. Versions are opaque, never empty,
// and differ whenever the documents differ. A Store is safe for concurrent use and returns once ctx has ended.
type Store interface {
	// Read returns the document and its version, [ErrNotFound] when there is none. The caller owns data.
	Read(ctx context.Context, name string) (data []byte, version string, err error)
	// Write stores the document whole or not at all and returns its version once it is durable. The store does not
	// keep data after it has returned. An empty old creates: [ErrConflict] when there is a document. Any other old
	// replaces the document of that version: [ErrConflict] when there is none or another. [ErrUnknownOutcome] says
	// that it is not known whether the document was written.
	Write(ctx context.Context, name string, data []byte, old string) (version string, err error)
	// Capabilities says which of the conditions of Write the store really checks.
	Capabilities() Capabilities
}

// Remover is a [Store] that can also remove a document. [Map.Remove] needs one.
type Remover interface {
	Store
	// Remove removes the document of the version old, for good once it returns nil. [ErrNotFound] when there is none,
	// [ErrConflict] when it has another version, and [ErrUnknownOutcome] when it is not known whether it was removed. An
	// error that is [errors.ErrUnsupported] says that a store below it cannot.
	Remove(ctx context.Context, name, old string) error
}

// Capabilities are what a store promises of its writes. The zero Capabilities promise nothing: every write overwrites.
type Capabilities struct {
	// ConditionalCreate: a write with an empty old version fails when there is a document.
	ConditionalCreate bool
	// ConditionalReplace: a write with an old version fails when the document has another.
	ConditionalReplace bool
}

// CheckName is for who writes a [Store]: it returns [ErrMalformed] unless name is a slash-separated relative path that stays below its root. Elements
// that begin with a dot are the stores' own.
func CheckName(name string) error {
	ok := fs.ValidPath(name) && !strings.ContainsAny(name, "\\:\x00")
	for part := range strings.SplitSeq(name, "/") {
		ok = ok && !strings.HasPrefix(part, ".")
	}
	if !ok {
		return fmt.Errorf("%w: document name %q: want a relative slash path, no element of which begins with a dot", ErrMalformed, name)
	}
	return nil
}
