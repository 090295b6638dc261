package kubelet

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sheetanchor/sheetanchor/test/e2e/internal/jsonl"
)

// recorder writes the record file and keeps a copy in memory. One goroutine at a time writes, in the order of IDs.
type recorder struct {
	file  *jsonl.File
	write chan struct{} // holds one token: whoever has it may write

	mu     sync.Mutex
	record Record // guarded by mu
}

// openRecorder opens or makes the file and goes on with what is in it. Half a line at its end is cut off.
func openRecorder(path string) (*recorder, error) {
	file, lines, err := jsonl.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open exec record: %w", err)
	}
	record, err := ParseRecord(lines)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open exec record %s: %w", path, err), file.Close())
	}
	r := &recorder{file: file, write: make(chan struct{}, 1), record: record}
	r.write <- struct{}{}
	return r, nil
}

func (r *recorder) close() error { return r.file.Close() }

// all returns a copy of the record.
func (r *recorder) all() Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.record)
}

// begin writes that a command begins, and returns it with its ID and time.
func (r *recorder) begin(e Exec) (Exec, error) {
	<-r.write
	defer func() { r.write <- struct{}{} }()
	e.ID = r.all().Last() + 1
	e.Started = time.Now()
	if err := r.append(e); err != nil {
		return e, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record = append(r.record, e)
	return e, nil
}

// end writes that a command has ended now.
func (r *recorder) end(e Exec) error {
	<-r.write
	defer func() { r.write <- struct{}{} }()
	e.Ended = time.Now()
	if err := r.append(e); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.IndexFunc(r.record, func(x Exec) bool { return x.ID == e.ID }); i >= 0 {
		r.record[i] = e
	}
	return nil
}

// append writes one line. It needs the token.
func (r *recorder) append(e Exec) error {
	if err := r.file.Append(e); err != nil {
		return fmt.Errorf("record exec in pod %s/%s: %w", e.Namespace, e.Pod, err)
	}
	return nil
}
