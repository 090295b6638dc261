package volumeinfo_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func readFile(tb testing.TB, name string) []byte {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func zipped(tb testing.TB, text []byte) []byte {
	tb.Helper()
	var buf bytes.Buffer
	zip := gzip.NewWriter(&buf)
	if _, err := zip.Write(text); err != nil {
		tb.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		tb.Fatal(err)
	}
	return buf.Bytes()
}

func unzipped(tb testing.TB, data []byte) []byte {
	tb.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		tb.Fatal(err)
	}
	text, err := io.ReadAll(zip)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

func indented(tb testing.TB, text []byte) []byte {
	tb.Helper()
	var buf bytes.Buffer
	if err := json.Indent(&buf, text, "", "  "); err != nil {
		tb.Fatal(err)
	}
	return buf.Bytes()
}

func anyJSON(tb testing.TB, text []byte) (v any) {
	tb.Helper()
	if err := json.Unmarshal(text, &v); err != nil {
		tb.Fatal(err)
	}
	return v
}

// reverse turns the order of every input around.
func reverse(in *volumeinfo.Inputs) {
	slices.Reverse(in.Claims)
	slices.Reverse(in.PVs)
	slices.Reverse(in.Snapshots)
	slices.Reverse(in.Contents)
	slices.Reverse(in.Operations)
	slices.Reverse(in.Skips)
	slices.Reverse(in.Records)
}
