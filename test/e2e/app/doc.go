// Package app makes applications to back up on a real snapshot stack, and runs examples/backup on them as a child process.
//
// An [App] is a namespace with claims that are bound, pods that run on the stub kubelet, some with hooks, and a user of its
// own who may do exactly what the example's rbac.yaml says. A [Backup] is one backup of it: its runs can be watched line by
// line and killed, and end with an [Exit], which holds the [Report] that the program prints as JSON.
//
// # Errors
//
// Every error names the operation and the object; those of the API server, the driver and the system are wrapped. An exit
// code other than 0 is no error.
//
// # Concurrency
//
// A [Cluster] and an App are safe for concurrent use. Two runs of one Backup must not go on at the same time unless that is
// what is tested.
package app
