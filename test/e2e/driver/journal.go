package driver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sheetanchor/sheetanchor/test/e2e/internal/jsonl"
)

// Unanswered is the code of a call that was under way when an earlier process of the driver ended.
const Unanswered = "Unanswered"

// Call is one CSI call.
type Call struct {
	Seq            int            // 1 for the first call ever, over restarts
	Method         string         // such as "CreateSnapshot"
	Name           string         `json:",omitzero"` // the name that the request gives, or that the object of its handle has
	ID             string         `json:",omitzero"` // the handle in the request, or after a successful create in the answer
	Claim          string         `json:",omitzero"` // "NAMESPACE/CLAIM"; empty if not known or if there are several
	VolumeSnapshot string         `json:",omitzero"` // "NAMESPACE/NAME" of the VolumeSnapshot, as CreateSnapshot was told
	Content        string         `json:",omitzero"` // the VolumeSnapshotContent, as CreateSnapshot was told
	Begun          time.Time      // when the call came
	Answered       time.Time      `json:",omitzero"` // when the answer was ready to go out; zero before
	Code           string         `json:",omitzero"` // the name of the gRPC code; empty while under way; see Unanswered
	Text           string         `json:",omitzero"` // the text of an error
	Snapshots      []CallSnapshot `json:",omitempty"`
}

// CallSnapshot is a snapshot that a call was about: one that the answer told of, or that was to be deleted.
type CallSnapshot struct {
	ID     string
	Name   string
	Claim  string `json:",omitzero"`
	Volume string
	CutAt  time.Time
	Ready  bool
	Gone   bool `json:",omitzero"` // whether a call that deletes left it no more, also one with an error that deleted others only
}

// journal is the log of calls, kept in a file to which lines are added only. Two lines with one Seq are the beginning and the
// end of a call.
type journal struct {
	name string
	file *jsonl.File
	turn chan struct{} // holds one value while a line is written, so that Seq runs in the order of the file

	mu      sync.Mutex // guards calls and changed
	calls   []Call
	changed chan struct{} // closed at the next line
}

// openJournal reads the file, and drops a line that was not written to its end.
func openJournal(name string) (*journal, error) {
	file, lines, err := jsonl.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open calls: %w", err)
	}
	calls, err := readCalls(lines)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read calls %s: %w", name, err), file.Close())
	}
	return &journal{name: name, file: file, turn: make(chan struct{}, 1), calls: calls, changed: make(chan struct{})}, nil
}

// readCalls returns the calls by Seq, the later line of one Seq counting.
func readCalls(data []byte) ([]Call, error) {
	var calls []Call
	lines := 0
	for line := range bytes.Lines(data) {
		lines++
		var c Call
		if err := json.Unmarshal(line, &c); err != nil {
			return nil, fmt.Errorf("line %d: %w", lines, err)
		}
		switch {
		case c.Seq == len(calls)+1:
			calls = append(calls, c)
		case c.Seq >= 1 && c.Seq <= len(calls):
			calls[c.Seq-1] = c
		default:
			return nil, fmt.Errorf("line %d: Seq %d after %d calls", lines, c.Seq, len(calls))
		}
	}
	for i, c := range calls {
		if c.Code == "" {
			calls[i].Code = Unanswered
		}
	}
	return calls, nil
}

// put writes a call and then lets it be seen. One without Seq is new and gets one.
func (j *journal) put(c Call) (Call, error) {
	j.turn <- struct{}{}
	defer func() { <-j.turn }()
	if c.Seq == 0 {
		c.Seq = j.count() + 1
	}
	if err := j.file.Append(c); err != nil {
		return c, fmt.Errorf("write calls %s: %w", j.name, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if c.Seq > len(j.calls) {
		j.calls = append(j.calls, c)
	} else {
		j.calls[c.Seq-1] = c
	}
	close(j.changed)
	j.changed = make(chan struct{})
	return c, nil
}

func (j *journal) count() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.calls)
}

// all returns the calls, and a channel that is closed when there is a new line.
func (j *journal) all() ([]Call, <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.calls), j.changed
}

func (j *journal) close() error { return j.file.Close() }
