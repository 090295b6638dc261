// Package program is the plumbing that the example programs share: flags, exit codes, output, and the loop around Step. What
// an operator would write stands in the programs themselves.
package program
