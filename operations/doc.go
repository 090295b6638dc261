// Package operations keeps what is still running for a backup or restore, and its record in a store.
package operations
