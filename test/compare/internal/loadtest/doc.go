// Package loadtest has the workloads of the comparison: each does the same work through Velero and through sheetanchor and
// returns figures of both.
package loadtest
