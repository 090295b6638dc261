// Command backup takes one backup of a namespace through every package of sheetanchor: pods are frozen, their volumes
// snapshotted together, the pods thawed as soon as the snapshots are cut, readiness is followed as asynchronous operations,
// the last steps run and the records are written, while the phase walks from New to Completed.
//
// Without flags it runs on an embedded cluster and needs nothing but Go. With -kubeconfig it backs up a namespace of a real
// cluster; the backup object is then a ConfigMap, so nothing has to be installed. Run again with the same -name and -store
// after a kill at any moment, it thaws what was frozen, resumes, and takes no second snapshot of a volume.
//
// reconcile.go is the reconciler an operator would write; the other files are flags, set-up and output.
//
// The exit code is 0 for Completed, 2 for PartiallyFailed, 1 for anything else.
package main
