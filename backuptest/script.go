package backuptest

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Script is what the storage does with the snapshots of one claim. The zero value cuts them and has them ready at once. It holds
// for each snapshot of the claim from its beginning.
type Script struct {
	// CutAfter is how long the cut takes: CreateSnapshot returns after it, and the content has its handle then.
	CutAfter time.Duration
	// ReadyAfter is how long a snapshot needs from the cut until it is ready. The cluster learns of it when the sidecar asks next.
	ReadyAfter time.Duration
	// Errors are answered by CreateSnapshot before the cut begins, in order. One with Times 0 is answered for ever.
	Errors []DriverError
	// DeleteErrors are the same for DeleteSnapshot.
	DeleteErrors []DriverError
	// Silent means that no sidecar takes care of the content: it never gets a status, as with a dead or missing driver.
	Silent bool
}

// DriverError is an error of a CSI call. Its text is that of a gRPC status.
type DriverError struct {
	// Code is the name of a gRPC code, such as "InvalidArgument". Empty: "Internal".
	Code string
	// Text is the description.
	Text string
	// Times is how many calls in a row get this error. 0: each from here on.
	Times int
}

// Error returns "rpc error: code = CODE desc = TEXT".
func (e *DriverError) Error() string {
	return fmt.Sprintf("rpc error: code = %s desc = %s", orString(e.Code, "Internal"), e.Text)
}

// errorAt returns the error for the nth CreateSnapshot call, counted from 1, or nil.
func (s Script) errorAt(call int) error { return scriptedError(s.Errors, call) }

func scriptedError(errs []DriverError, call int) error {
	for _, e := range errs {
		if e.Times <= 0 || call <= e.Times {
			return &e
		}
		call -= e.Times
	}
	return nil
}

// scriptFor returns the script of a claim: one under "NAMESPACE/NAME" goes before one under "NAME".
func scriptFor(scripts map[string]Script, claim types.NamespacedName) Script {
	if script, found := scripts[claim.String()]; found {
		return script
	}
	return scripts[claim.Name]
}
