package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
)

// Exit codes of examples/backup.
const (
	CodeCompleted       = 0
	CodeOther           = 1
	CodePartiallyFailed = 2
)

// Exit is how a run ended.
type Exit struct {
	// Code is the exit code, -1 for a run that a signal ended.
	Code int
	// Stdout and Stderr are all that it printed.
	Stdout, Stderr string
}

// Report decodes what a run printed that had "-o json". It returns an error when that is not one JSON object.
func (e Exit) Report() (Report, error) {
	var r Report
	decoder := json.NewDecoder(strings.NewReader(e.Stdout))
	if err := decoder.Decode(&r); err != nil {
		return r, fmt.Errorf("decode the report: %w; exit code %d, standard error %q", err, e.Code, e.Stderr)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return r, fmt.Errorf("the report is followed by more: %q", e.Stdout)
	}
	return r, nil
}

// Report is what is read of the JSON that examples/backup prints; unknown fields are left out.
type Report struct {
	Phase       string         `json:"phase"`
	Reason      string         `json:"reason"`
	Transitions []Transition   `json:"transitions"` // that this run made
	Batches     []Batch        `json:"batches"`     // that this run cut
	Snapshots   []Snapshot     `json:"snapshots"`   // one for each volume, also of earlier runs
	Skipped     []Skipped      `json:"skipped"`
	Errors      []string       `json:"errors"`
	Warnings    []string       `json:"warnings"`
	Requests    map[string]int `json:"requests"` // that this run sent, by verb and resource
	Seconds     float64        `json:"seconds"`
}

// Transition is a change of the phase.
type Transition struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Batch is what was frozen and cut together.
type Batch struct {
	Pods          []string           `json:"pods"`
	Volumes       []string           `json:"volumes"`
	FrozenSeconds map[string]float64 `json:"frozenSeconds"` // by pod with hooks
}

// Snapshot is the result of one volume.
type Snapshot struct {
	Name       string `json:"name"` // of the VolumeSnapshot
	PVC        string `json:"pvc"`
	Handle     string `json:"handle"`
	ReadyToUse bool   `json:"readyToUse"`
	Error      string `json:"error"`
}

// Skipped is a volume that was not to be snapshotted.
type Skipped struct {
	PVC    string `json:"pvc"`
	Reason string `json:"reason"`
}

// Handles are the handles by claim, without those that have none.
func (r Report) Handles() map[string]string {
	handles := map[string]string{}
	for _, s := range r.Snapshots {
		if s.Handle != "" {
			handles[s.PVC] = s.Handle
		}
	}
	return handles
}

// Snapshot returns the result of a claim, and whether there is one.
func (r Report) Snapshot(claim string) (Snapshot, bool) {
	for _, s := range r.Snapshots {
		if s.PVC == claim {
			return s, true
		}
	}
	return Snapshot{}, false
}

// Frozen are the seconds that each pod with hooks was frozen, by its name.
func (r Report) Frozen() map[string]float64 {
	frozen := map[string]float64{}
	for _, b := range r.Batches {
		maps.Copy(frozen, b.FrozenSeconds)
	}
	return frozen
}
