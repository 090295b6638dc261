package kubelet

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/sheetanchor/sheetanchor/test/e2e/internal/jsonl"
)

// Exec is one command that was asked for.
type Exec struct {
	// ID counts the commands of a record from 1, in the order in which they began.
	ID int64 `json:"id"`
	// Started is when the command began.
	Started time.Time `json:"started"`
	// Ended is when it ended. It is zero for a command that still runs, and for one that ran when its server ended.
	Ended time.Time `json:"ended,omitzero"`
	// Namespace, Pod and PodUID name the pod.
	Namespace string    `json:"namespace"`
	Pod       string    `json:"pod"`
	PodUID    types.UID `json:"podUID"`
	// Container is the container's name.
	Container string `json:"container"`
	// Command is the command and its arguments.
	Command []string `json:"command"`
	// ExitCode is how it ended, once Ended is set and Lost is not.
	ExitCode int `json:"exitCode"`
	// Lost says that the connection ended before the command did: the one who asked does not know its exit code.
	Lost bool `json:"lost,omitempty"`
}

// Record is a list of commands in the order in which they began.
type Record []Exec

// In returns the commands in pods of a namespace.
func (r Record) In(namespace string) Record {
	return r.filter(func(e Exec) bool { return e.Namespace == namespace })
}

// Of returns the commands in one pod, by its name.
func (r Record) Of(namespace, pod string) Record {
	return r.filter(func(e Exec) bool { return e.Namespace == namespace && e.Pod == pod })
}

// After returns the commands that began after the one with this ID. 0 returns all.
func (r Record) After(id int64) Record {
	return r.filter(func(e Exec) bool { return e.ID > id })
}

// Last is the highest ID, 0 for an empty record: a mark for [Record.After].
func (r Record) Last() int64 {
	if len(r) == 0 {
		return 0
	}
	return r[len(r)-1].ID
}

func (r Record) filter(keep func(Exec) bool) Record {
	var out Record
	for _, e := range r {
		if keep(e) {
			out = append(out, e)
		}
	}
	return out
}

// ReadRecord reads a record file. A file that does not exist is an empty record, and half a line at its end, as a killed
// server may leave, is left out. Its errors name the file and the line. The file may be written meanwhile.
func ReadRecord(path string) (Record, error) {
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read exec record: %w", err)
	}
	record, err := ParseRecord(data)
	if err != nil {
		return nil, fmt.Errorf("read exec record %s: %w", path, err)
	}
	return record, nil
}

// ParseRecord reads the text of a record file: JSON lines, of which a later one about a command replaces the earlier, and
// the last is left out if it has no end. Its errors name the line.
func ParseRecord(data []byte) (Record, error) {
	data = jsonl.Whole(data)
	at := map[int64]int{}
	var record Record
	number := 0
	for line := range bytes.Lines(data) {
		number++
		var e Exec
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if e.ID <= 0 {
			return nil, fmt.Errorf("line %d: id: %d: want more than 0", number, e.ID)
		}
		if i, ok := at[e.ID]; ok {
			record[i] = e
			continue
		}
		at[e.ID] = len(record)
		record = append(record, e)
	}
	slices.SortFunc(record, func(a, b Exec) int { return cmp.Compare(a.ID, b.ID) })
	return record, nil
}
