package stack

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// What a killed builder left is neither kept nor taken for a build.
func TestBuildAfterKilledBuilder(t *testing.T) {
	t.Parallel()
	module, cache := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"go.mod": "module x\n", "main.go": "package main\n\nfunc main() {}\n"} {
		if err := os.WriteFile(filepath.Join(module, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	left := filepath.Join(cache, ".new-g-1", "g")
	if err := errors.Join(os.MkdirAll(left, 0o700), os.WriteFile(filepath.Join(left, "half"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	b := &builder{cache: cache}
	g := group{name: "g", dir: module, stamp: "1", programs: map[string]string{"program": "x"}}
	if err := b.ensure(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(cache)
	if err != nil || len(entries) != 2 || entries[0].Name() != "g-1" || entries[1].Name() != "lock-g-1" {
		t.Errorf("the cache holds %v, %v, want the group and its lock", entries, err)
	}
	built, err := os.ReadDir(b.dir(g))
	if err != nil || len(built) != 1 || built[0].Name() != "program" {
		t.Errorf("the group holds %v, %v, want the program", built, err)
	}
}
