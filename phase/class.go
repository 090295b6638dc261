package phase

import "fmt"

// Class says what is done in a phase. The classes are ordered: no transition leads to a lower one. The zero Class is no
// class, and a machine with a phase of it is refused.
type Class uint8

// The classes, in the order in which work passes through them.
const (
	// ClassReady: no item was processed yet.
	ClassReady Class = iota + 1
	// ClassWorking: items are processed.
	ClassWorking
	// ClassWaiting: asynchronous operations are awaited.
	ClassWaiting
	// ClassFinalizing: the last steps are done.
	ClassFinalizing
	// ClassTerminal: nothing happens any more.
	ClassTerminal
)

// String returns the class as one lower-case word.
func (c Class) String() string {
	switch c {
	case ClassReady:
		return "ready"
	case ClassWorking:
		return "working"
	case ClassWaiting:
		return "waiting"
	case ClassFinalizing:
		return "finalizing"
	case ClassTerminal:
		return "terminal"
	default:
		return fmt.Sprintf("class(%d)", uint8(c))
	}
}
