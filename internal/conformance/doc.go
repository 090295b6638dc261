// Package conformance holds scenarios of CSI snapshots that run on any cluster with a snapshot stack, and what the objects go
// through in each of them. The fake controller of backuptest and a real stack are held to the same list, and so to each other.
//
// A scenario's outcome leaves out what differs between two runs of one stack: times, names, UIDs and handles, how often was asked,
// and how the columns of different objects drift against each other. What is left is, for each object, the sequence of its
// finalizers, of its annotations, of its status and of its life, and the events that were recorded.
//
// # Concurrency
//
// Scenarios may run at the same time on one cluster, each in a namespace of its own.
package conformance
