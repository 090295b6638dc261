// Package jsonl keeps a file of JSON lines to which whole lines are added, whatever happens to the process or the disk.
//
// # Errors
//
// Those of the file system and of encoding, as they are: callers name the file's purpose.
//
// # Concurrency
//
// A [File] is for one goroutine at a time, and for one process.
package jsonl

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
)

// File is a file of JSON lines. Make one with [Open].
type File struct {
	file  file
	whole int64 // bytes of whole lines
	torn  bool  // whether something stands behind them
}

// file is the part of [os.File] that is needed.
type file interface {
	io.WriteCloser
	Truncate(size int64) error
}

// Open opens or makes the file, mode 0600, and returns its lines, each with its end. Half a line at the end, which a killed
// process leaves, is left out, and cut off before the first line that is added.
func Open(path string) (*File, []byte, error) {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	opened, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, err
	}
	lines := Whole(data)
	return &File{file: opened, whole: int64(len(lines)), torn: len(lines) < len(data)}, lines, nil
}

// Whole returns data without the half line at its end.
func Whole(data []byte) []byte { return data[:bytes.LastIndexByte(data, '\n')+1] }

// Append adds a value as one line, in one write. After an error the file holds the lines of before: a full disk takes half
// a line, which is cut off now or, if that fails too, before the next one.
func (f *File) Append(value any) error {
	line, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if err := f.mend(); err != nil {
		return err
	}
	if _, err := f.file.Write(append(line, '\n')); err != nil {
		f.torn = true
		return errors.Join(err, f.mend())
	}
	f.whole += int64(len(line)) + 1
	return nil
}

// mend cuts off what stands behind the last whole line.
func (f *File) mend() error {
	if !f.torn {
		return nil
	}
	if err := f.file.Truncate(f.whole); err != nil {
		return err
	}
	f.torn = false
	return nil
}

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }
