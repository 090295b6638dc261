// Package tracktest runs the failures that were found in Velero through both: the same trouble, and what each ends with.
package tracktest
