package golden

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

type recorder struct{ errors []string }

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...) }

func TestCheckWritesThenCompares(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "deep", "file.txt")
	var r recorder
	check(&r, path, []byte("one\n"), false)
	if len(r.errors) == 0 || !strings.Contains(r.errors[0], "-update") {
		t.Errorf("without a file: %q, want an error that names -update", r.errors)
	}
	r = recorder{}
	check(&r, path, []byte("one\n"), true)
	check(&r, path, []byte("one\n"), false)
	if len(r.errors) != 0 {
		t.Errorf("the same content: %q, want no error", r.errors)
	}
	check(&r, path, []byte("two\n"), false)
	if len(r.errors) != 1 || !strings.Contains(r.errors[0], "one") || !strings.Contains(r.errors[0], "two") {
		t.Errorf("other content: %q, want one error that shows both", r.errors)
	}
}
