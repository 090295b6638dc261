package operations

import "context"

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

// Capabilities are what a store promises of its writes. The zero Capabilities promise nothing: every write overwrites.
type Capabilities struct {
	// ConditionalCreate: a write with an empty old version fails when there is a document.
	ConditionalCreate bool
	// ConditionalReplace: a write with an old version fails when the document has another.
	ConditionalReplace bool
}
