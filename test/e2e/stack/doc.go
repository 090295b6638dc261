// Package stack runs the real snapshot stack as plain processes on loopback: etcd, kube-apiserver,
// kube-controller-manager, snapshot-controller, csi-snapshotter, csi-provisioner, a scriptable CSI driver and a stub
// kubelet. [Build] builds the programs, [Up] starts a stack with fresh data, [Attach] finds a running one again.
//
// Everything of a stack is in one directory: keys, logs, data, the audit log, and what says which processes belong to
// it. A process is known by its number, its start time and the machine's boot, so that no other process is ever
// signalled. Several stacks run side by side; each has its own ports, keys and data.
//
// # Errors
//
// [ErrComponent] is wrapped when no component has the name given. [ErrNotRunning] is wrapped when a component that
// should be signalled has no process. [ErrNoStack] is wrapped by [Attach] for a directory that holds no stack. A
// component that ends or does not get healthy is an [*UnhealthyError] with the end of its log.
//
// # Concurrency
//
// All methods are safe for concurrent use, also by several programs that hold the same stack: operations on one
// component exclude each other by a file lock.
package stack
