package stack

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An inner stack that cannot be read keeps none of the outer one's processes alive.
func TestDownWithBrokenInnerStack(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "[s") // no pattern either
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := lay(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := sleeper(t)
	if err := s.writeRecord(Etcd, record{Process: p, Wanted: true}); err != nil {
		t.Fatal(err)
	}
	inner := filepath.Join(dir, "inner")
	if err := errors.Join(os.Mkdir(inner, 0o700), os.WriteFile(filepath.Join(inner, stateFile), []byte("{"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := s.Down(t.Context()); err == nil || !strings.Contains(err.Error(), "inner") {
		t.Errorf("Down = %v, want an error that names the inner stack", err)
	}
	if !p.ended() {
		t.Error("the outer stack's process still runs")
	}
	if _, err := os.Stat(inner); err != nil {
		t.Errorf("Stat of the inner stack = %v, want it to stay", err)
	}
	if err := os.RemoveAll(inner); err != nil {
		t.Fatal(err)
	}
	if err := s.Down(t.Context()); err != nil {
		t.Errorf("Down = %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Stat(%s) = %v, want none", dir, err)
	}
}
