package backuptest

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// wrong says what is wrong with the options, each field by its name; zero values never are.
func (o ControllerOptions) wrong() error {
	errs := []error{
		negative("Workers", o.Workers), negative("CallTimeout", o.CallTimeout), negative("RetryStart", o.RetryStart),
		negative("RetryMax", o.RetryMax), negative("Resync", o.Resync),
	}
	if !(o.Rate >= 0) || math.IsInf(o.Rate, 1) { // which a NaN is not
		errs = append(errs, fmt.Errorf("field Rate: %v is not a number from 0", o.Rate))
	}
	for _, claim := range slices.Sorted(maps.Keys(o.Scripts)) {
		at := fmt.Sprintf("field Scripts[%q]", claim)
		if parts := strings.Split(claim, "/"); len(parts) > 2 || slices.Contains(parts, "") {
			errs = append(errs, fmt.Errorf("%s: the key is neither NAMESPACE/NAME nor NAME", at))
		}
		errs = append(errs, within(at, o.Scripts[claim].wrong()))
	}
	return errors.Join(errs...)
}

// wrong says what is wrong with the options.
func (o ProvisionerOptions) wrong() error {
	return errors.Join(
		negative("Latency", o.Latency), negative("RetryStart", o.RetryStart), negative("RetryMax", o.RetryMax), negative("Resync", o.Resync),
	)
}

// wrong says what is wrong with the options.
func (o DriverOptions) wrong() error {
	var errs []error
	for i, name := range o.Names {
		if name == "" {
			errs = append(errs, fmt.Errorf("driver options: field Names[%d]: it is empty", i))
		}
	}
	return errors.Join(errs...)
}

func (s Script) wrong() error {
	errs := []error{negative("CutAfter", s.CutAfter), negative("ReadyAfter", s.ReadyAfter), negative("LateFinalizer", s.LateFinalizer)}
	for field, failures := range map[string][]DriverError{"Errors": s.Errors, "DeleteErrors": s.DeleteErrors} {
		for i, failure := range failures {
			errs = append(errs, within(fmt.Sprintf("field %s[%d]", field, i), negative("Times", failure.Times)))
		}
	}
	if s.ErrorsOn > ErrorsOnSnapshot {
		errs = append(errs, fmt.Errorf("field ErrorsOn: %d is unknown", s.ErrorsOn))
	}
	for i, incident := range s.Incidents {
		errs = append(errs, within(fmt.Sprintf("field Incidents[%d]", i), incident.wrong()))
	}
	return errors.Join(errs...)
}

func (i Incident) wrong() error {
	errs := []error{negative("After", i.After), negative("Lasts", i.Lasts)}
	if i.Kind > IncidentReplaced {
		errs = append(errs, fmt.Errorf("field Kind: %d is unknown", i.Kind))
	}
	return errors.Join(errs...)
}

// within puts where it is before what is wrong.
func within(at string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", at, err)
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
