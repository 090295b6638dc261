// Package velerotest drives the code of Velero that the comparison is about, in the way its server and plugins do: its own
// exported functions, actions and reconcilers, on the same clusters and behind the same stores as ours. What it adds is only
// what stands around them in a server: a client, a plugin manager without processes, an object store in memory.
package velerotest
