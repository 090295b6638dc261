// Package operationstest checks that a store keeps the contract of [operations.Store]: alone, under several writers, and
// under a map that meets crashes, lost answers, old reads and hanging calls. It is for the tests of anybody who writes a
// store, on whatever is below:
//
//	func TestStore(t *testing.T) {
//		for _, c := range operationstest.Cases() {
//			t.Run(c.Name, func(t *testing.T) { c.Run(t, operationstest.Options{Open: open}) })
//		}
//	}
//
// The faults are put between the map and the store, so that the store itself needs no way to fail. No case sleeps or
// needs a clock: each works in virtual time and in real time.
//
// # Errors
//
// What is wrong is said with [TB.Errorf] and [TB.Fatalf], each text begins with the name of the case.
//
// # Concurrency
//
// The cases use different documents, so that they may run at the same time. Every goroutine has ended when a case returns,
// if the store's calls return once their context has ended.
package operationstest
