// Package sealed holds the mark that closes an interface: only packages of this module can name it, so only they can
// implement an interface with a method that takes it.
package sealed

// Mark is the parameter of a method that seals an interface. It carries nothing.
type Mark struct{}
