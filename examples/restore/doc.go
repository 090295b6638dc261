// Command restore brings the volumes of a backup back from the records that examples/backup wrote: for each it puts the
// physical snapshot into the cluster again and makes a claim of it, and when the claims are bound the last steps give the new
// persistent volumes back their reclaim policy and labels, look whether everything is there and remove what was needed only
// for the way.
//
// Without flags it runs on an embedded cluster with a recorded backup and needs nothing but Go. With -store it takes the
// backup of a run of examples/backup with the same -store; its claims are there still, so give them another namespace with
// -map. With -kubeconfig it restores into a real cluster; the restore object is then a ConfigMap. Run again with the same
// -name and -store after a kill at any moment, it resumes and makes nothing twice.
//
// reconcile.go is the reconciler an operator would write; the other files are flags, set-up and output. rbac.yaml has the roles
// that it needs.
//
// The exit code is 0 for Completed, 2 for PartiallyFailed, 1 for anything else.
package main
