// Package gzipjson is the form shared by the files we have in common with Velero: gzip of one JSON document and a
// newline. It bounds what a hostile file may expand to and keeps the keys of objects that a newer writer added.
package gzipjson

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

var (
	// ErrTooLarge says that a document is larger than its limit, once decompressed.
	ErrTooLarge = errors.New("document too large")
	// ErrNotGzip says that a document is not one complete gzip file.
	ErrNotGzip = errors.New("not a gzip file")
)

// Encode returns the gzip form of v's JSON and a newline. Equal values give equal bytes.
func Encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	zip := gzip.NewWriter(&buf)
	if err := json.NewEncoder(zip).Encode(v); err != nil {
		return nil, fmt.Errorf("encode json: %w", err)
	}
	if err := zip.Close(); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	return buf.Bytes(), nil
}

// Expand decompresses data and returns the JSON text. It never holds more than limit bytes and one: a longer document is
// [ErrTooLarge], anything that is not gzip, cut short or damaged [ErrNotGzip].
func Expand(data []byte, limit int64) ([]byte, error) {
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotGzip, err)
	}
	text, err := io.ReadAll(io.LimitReader(zip, min(limit, math.MaxInt64-1)+1))
	if int64(len(text)) > limit {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotGzip, err)
	}
	return text, nil
}
