// Package reconciler is a small reconciler of a backup operator, as a reader might have one, and the test that kills it after
// each of its writes and lets it resume. docs/testing.md walks through both.
package reconciler
