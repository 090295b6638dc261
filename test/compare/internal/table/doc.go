// Package table holds what a run has measured, judges it against targets, and prints it: as a table with a chart for curves,
// and as JSON. Everything in it is a pure function of its arguments.
package table
