// Package apischema follows the structural schemas of CustomResourceDefinitions: it drops unknown fields, sets defaults and
// compares objects with types, enums, patterns, limits, required fields, list types and allOf, anyOf, oneOf and not.
//
// # What differs from a real server
//
// Rules in CEL (x-kubernetes-validations) and formats are not followed, a field that an update leaves as wrong as it was is a
// fault (no ratcheting), and a schema is not checked for being structural.
//
// # Concurrency
//
// A [Schema] is not changed after [Parse] and may be used by many goroutines at once.
package apischema
