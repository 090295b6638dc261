package driver

import (
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"google.golang.org/grpc/codes"
)

// Script is what the driver does with the snapshots of one claim. The zero value cuts them and has them ready at once.
//
// Of the embedded script CutAfter, ReadyAfter, Errors and DeleteErrors are for the storage; the other fields describe the fake
// controller and are refused, since the real one does as it does. Errors are counted for each snapshot over all its calls that
// were answered with one, those under an earlier script too.
type Script struct {
	backuptest.Script
	// HangCreate lets CreateSnapshot calls wait, before anything is cut, until their context ends or the script in force
	// for the claim says so no longer.
	HangCreate bool
	// HangDelete does the same for DeleteSnapshot.
	HangDelete bool
}

// Rule is a script and the claims it is for.
type Rule struct {
	// Pattern is matched as by path.Match against "NAMESPACE/CLAIM", or "/" for a volume whose claim is not known. It is
	// the name of the rule.
	Pattern string
	Script  Script
}

// Refuse returns a script that answers every DeleteSnapshot call with code and text.
func Refuse(code, text string) Script {
	return Script{Script: backuptest.Script{DeleteErrors: []backuptest.DriverError{{Code: code, Text: text}}}}
}

// validate returns every fault of the rule.
func (r Rule) validate() error {
	var errs []error
	if r.Pattern == "" {
		errs = append(errs, errors.New("pattern must be given"))
	} else if _, err := path.Match(r.Pattern, ""); err != nil {
		errs = append(errs, fmt.Errorf("pattern %q: %w", r.Pattern, err))
	}
	s := r.Script
	if s.CutAfter < 0 {
		errs = append(errs, fmt.Errorf("CutAfter %v is negative", s.CutAfter))
	}
	if s.ReadyAfter < 0 {
		errs = append(errs, fmt.Errorf("ReadyAfter %v is negative", s.ReadyAfter))
	}
	for field, set := range map[string]bool{
		"Silent": s.Silent, "ErrorsOn": s.ErrorsOn != 0, "LateFinalizer": s.LateFinalizer != 0, "SeesDeletion": s.SeesDeletion,
		"Incidents": len(s.Incidents) > 0,
	} {
		if set {
			errs = append(errs, fmt.Errorf("%s is for the fake controller only", field))
		}
	}
	for i, e := range slices.Concat(s.Errors, s.DeleteErrors) {
		field := fmt.Sprintf("Errors[%d]", i)
		if i >= len(s.Errors) {
			field = fmt.Sprintf("DeleteErrors[%d]", i-len(s.Errors))
		}
		if code, known := codeOf(e.Code); !known || code == codes.OK {
			errs = append(errs, fmt.Errorf("%s: Code %q is not the name of a gRPC error code", field, e.Code))
		}
		if e.Times < 0 {
			errs = append(errs, fmt.Errorf("%s: Times %d is negative", field, e.Times))
		}
	}
	return errors.Join(errs...)
}

// scriptFor returns the script of the last rule that matches, the zero script if none does.
func scriptFor(rules []Rule, claim string) Script {
	for _, rule := range slices.Backward(rules) {
		if matches(rule.Pattern, claim) {
			return rule.Script
		}
	}
	return Script{}
}

func matches(pattern, claim string) bool {
	if claim == "" {
		claim = "/"
	}
	matched, err := path.Match(pattern, claim)
	return err == nil && matched
}

// withRule returns the rules with rule as the last one, in place of one with its pattern.
func withRule(rules []Rule, rule Rule) []Rule {
	return append(withoutRules(rules, rule.Pattern), rule)
}

// withoutRules returns the rules without those patterns.
func withoutRules(rules []Rule, patterns ...string) []Rule {
	return slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool { return slices.Contains(patterns, r.Pattern) })
}
