package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// planned is what -plan prints with -o json.
type planned struct {
	Batches []plannedBatch `json:"batches"`
	Skipped []skipped      `json:"skipped"`
}

type plannedBatch struct {
	Pods    []string `json:"pods"`
	Volumes []string `json:"volumes"`
	Hooked  bool     `json:"hooked"`
}

func writePlan(w io.Writer, plan *csisnapshot.Plan) error {
	p := planned{Batches: []plannedBatch{}, Skipped: []skipped{}}
	for _, b := range plan.Batches {
		made := plannedBatch{Pods: []string{}, Volumes: []string{}, Hooked: b.Hooked}
		for _, pod := range b.Pods {
			made.Pods = append(made.Pods, pod.Name)
		}
		for _, v := range b.Volumes {
			made.Volumes = append(made.Volumes, v.Claim)
		}
		p.Batches = append(p.Batches, made)
	}
	for _, s := range plan.Skipped {
		p.Skipped = append(p.Skipped, skipped{PVC: s.Claim, Reason: s.Reason})
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(p)
}

// planFault is one line for the faults of a plan: each mistake once, with the claims that it keeps from a snapshot.
func planFault(plan *csisnapshot.Plan) error {
	claims := map[string][]string{}
	for _, f := range plan.Faults {
		claims[f.Err.Error()] = append(claims[f.Err.Error()], f.Claim)
	}
	var faults []error
	for _, mistake := range slices.Sorted(maps.Keys(claims)) {
		faults = append(faults, fmt.Errorf("%s (claims %s)", mistake, strings.Join(claims[mistake], ", ")))
	}
	return errors.Join(faults...)
}
