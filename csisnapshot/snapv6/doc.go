// Package snapv6 adapts the generated clientset of external-snapshotter's client/v6 to package csisnapshot. It is the
// only place where types of that client appear in a signature.
//
// # Errors
//
// The errors of the clientset are passed on as they are.
//
// # Concurrency
//
// The adapter is as safe for concurrent use as the clientset; generated ones are, fakes included.
package snapv6
