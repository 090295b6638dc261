// Package compat holds the tests of backuptest's server against the clients that operators are built on, in their newest
// versions: client-go's informers, reflectors and leader election, controller-runtime's client, cache and controllers, and
// the snapshot clients of external-snapshotter 8. It is a module of its own, so that none of them is a dependency of the
// library.
package compat
