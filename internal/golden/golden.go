// Package golden compares what a test produced with a file in its testdata folder. Run the tests of one package with
// -update to write the files anew.
package golden

import (
	"flag"
	"os"
	"path/filepath"
)

// update is a flag of the test binaries that link this package, and of nothing else.
var update = flag.Bool("update", false, "write golden files instead of comparing with them")

// TB is what Check needs of a testing.TB.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Check reports an error unless got is what testdata/name holds. With -update it writes the file.
func Check(t TB, name string, got []byte) {
	t.Helper()
	check(t, filepath.Join("testdata", name), got, *update)
}

func check(t TB, path string, got []byte, write bool) {
	t.Helper()
	if write {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatalf("golden: %v", err)
		}
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatalf("golden: %v", err)
		}
		return
	}
	want, err := os.ReadFile(path) //nolint:gosec // the test names the file
	if err != nil {
		t.Fatalf("golden: %v; run the test with -update to write it", err)
	}
	if string(want) != string(got) {
		t.Errorf("%s differs; run the test with -update if that is meant\n--- want\n%s\n--- got\n%s", path, want, got)
	}
}
