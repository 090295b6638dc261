package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/sheetanchor/sheetanchor/internal/atomicfile"
)

// record is what is remembered of a component between operations, in a file of its own.
type record struct {
	Process process  `json:"process"`
	Flags   []string `json:"flags,omitempty"` // the extra ones
	Wanted  bool     `json:"wanted"`          // started, and since then neither stopped nor killed by us
}

func (s *Stack) readRecord(name string) (record, error) {
	var r record
	data, err := atomicfile.OS{}.ReadFile(s.layout.record(name), maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("%s: %w", s.layout.record(name), err)
	}
	return r, nil
}

func (s *Stack) writeRecord(name string, r record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return atomicfile.Write(atomicfile.OS{}, s.layout.record(name), data)
}

// lock excludes other operations on a component, of this program and of others.
func (s *Stack) lock(ctx context.Context, name string) (unlock func() error, err error) {
	held, err := atomicfile.Lock(ctx, atomicfile.OS{}, s.layout.record(name)+".lock", processPoll)
	if err != nil {
		return nil, fmt.Errorf("wait for another operation on %s: %w", name, err)
	}
	return held.Close, nil
}

// tailSize is how much of a log an error shows.
const tailSize = 3000

// tail returns the end of a file, or why it cannot be read.
func tail(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return err.Error()
	}
	defer f.Close() //nolint:errcheck // only read
	if info, err := f.Stat(); err == nil && info.Size() > tailSize {
		if _, err := f.Seek(-tailSize, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
