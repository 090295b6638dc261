// Package apirequest reads what a request asks of a Kubernetes API server from its method and path, and counts requests
// where they leave for the server, so that a client's own retries are counted too.
//
// # Concurrency
//
// [Parse] is a pure function. A [Counter] is safe for concurrent use.
package apirequest
