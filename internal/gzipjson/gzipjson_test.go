package gzipjson_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/sheetanchor/sheetanchor/internal/gzipjson"
)

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	data, err := gzipjson.Encode([]int{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	text, err := gzipjson.Expand(data, 6)
	if err != nil || string(text) != "[1,2]\n" {
		t.Errorf("Expand = %q, %v, want [1,2] and a newline", text, err)
	}
	text, err = gzipjson.Expand(data, math.MaxInt64)
	if err != nil || string(text) != "[1,2]\n" {
		t.Errorf("Expand without a limit = %q, %v, want [1,2] and a newline", text, err)
	}
	if _, err := gzipjson.Expand(data, 5); !errors.Is(err, gzipjson.ErrTooLarge) {
		t.Errorf("Expand with a limit one byte short = %v, want ErrTooLarge", err)
	}
}

func TestExpandRefuses(t *testing.T) {
	t.Parallel()
	whole, err := gzipjson.Encode(strings.Repeat("data", 500))
	if err != nil {
		t.Fatal(err)
	}
	var bomb bytes.Buffer
	zip := gzip.NewWriter(&bomb)
	for range 64 {
		_, _ = zip.Write(make([]byte, 1<<20))
	}
	_ = zip.Close()
	for name, tc := range map[string]struct {
		reason string
		data   []byte
		want   error
	}{
		"plain json": {"a file without compression is not ours", []byte(`[]`), gzipjson.ErrNotGzip},
		"cut short":  {"half a file must not pass for a whole one", whole[:len(whole)-4], gzipjson.ErrNotGzip},
		"trailing":   {"bytes after the document are damage", append(bytes.Clone(whole), "junk"...), gzipjson.ErrNotGzip},
		"bomb":       {"64 MiB of zeros stop at the limit", bomb.Bytes(), gzipjson.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := gzipjson.Expand(tc.data, 1<<16); !errors.Is(err, tc.want) {
				t.Errorf("%s: Expand = %v, want %v", tc.reason, err, tc.want)
			}
		})
	}
}

func TestUnknownKeys(t *testing.T) {
	t.Parallel()
	known := []string{"phase", "size"}
	extra, err := gzipjson.Unknown([]byte(`{"Phase":"x","SIZE":1,"later":{"a":1},"also":null}`), known)
	if err != nil || len(extra) != 2 {
		t.Fatalf("Unknown = %v, %v, want the two keys that are not known in any case", extra, err)
	}
	extra["pHaSe"] = json.RawMessage(`"stale"`)
	for in, want := range map[string]string{
		`{"size":2}`: `{"size":2,"also":null,"later":{"a":1}}`,
		`{}`:         `{"also":null,"later":{"a":1}}`,
	} {
		if got, err := gzipjson.Join([]byte(in), known, extra); err != nil || string(got) != want {
			t.Errorf("Join(%s) = %s, %v, want %s", in, got, err, want)
		}
	}
	if _, err := gzipjson.Join([]byte(`null`), known, extra); err == nil {
		t.Error("Join(null) gave no error")
	}
}
