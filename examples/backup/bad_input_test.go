package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sheetanchor/sheetanchor/examples/internal/program"
)

// Bad input ends the program with one line that names the thing at fault, and exit code 1.
func TestBadInput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := write("file", "a file, not a directory")
	broken := write("broken.yaml", "kind: [")
	noClass := write("noclass.yaml", withoutSnapshotClass(t))
	for name, tc := range map[string]struct {
		reason string
		args   []string
		want   []string
	}{
		"unknown flag":                  {"flags are checked", []string{"-nope"}, []string{"-nope"}},
		"argument":                      {"there are no arguments", []string{"shop"}, []string{`"shop"`}},
		"bad name":                      {"the object could not be created", []string{"-name", "No Good"}, []string{"-name", "No Good"}},
		"bad output":                    {"two forms are known", []string{"-o", "xml"}, []string{"-o", "xml"}},
		"bad wait":                      {"two modes are known", []string{"-wait", "hope"}, []string{"-wait", "hope"}},
		"bad fail":                      {"a pair is wanted", []string{"-fail", "media"}, []string{"-fail", "PVC=ERRORTEXT"}},
		"bad slow":                      {"a duration is wanted", []string{"-slow", "media=soon"}, []string{"-slow", "soon"}},
		"negative timeout":              {"nothing would ever be waited for", []string{"-timeout", "-1s"}, []string{"-timeout"}},
		"zero concurrency":              {"nothing would ever be created", []string{"-concurrency", "0"}, []string{"-concurrency"}},
		"fail on a real cluster":        {"only the fake storage can be told to fail", []string{"-kubeconfig", "x", "-namespace", "shop", "-fail", "a=b"}, []string{"-fail"}},
		"no namespace":                  {"a real cluster has many", []string{"-kubeconfig", "x"}, []string{"-namespace"}},
		"missing kubeconfig":            {"it cannot be read", []string{"-kubeconfig", filepath.Join(dir, "none"), "-namespace", "shop", "-store", dir}, []string{"-kubeconfig", "none"}},
		"broken kubeconfig":             {"it cannot be parsed", []string{"-kubeconfig", broken, "-namespace", "shop", "-store", dir}, []string{"-kubeconfig", "broken.yaml"}},
		"store is a file":               {"records need a directory", []string{"-store", file}, []string{"-store", file}},
		"missing dump":                  {"it cannot be read", []string{"-f", filepath.Join(dir, "gone.yaml"), "-store", filepath.Join(dir, "a")}, []string{"gone.yaml"}},
		"broken dump":                   {"it cannot be parsed", []string{"-f", broken, "-store", filepath.Join(dir, "b")}, []string{"broken.yaml"}},
		"unknown namespace":             {"there is nothing to back up", []string{"-namespace", "nowhere", "-store", filepath.Join(dir, "c")}, []string{`"nowhere"`}},
		"no class for the driver":       {"no snapshot could be taken", []string{"-f", noClass, "-store", filepath.Join(dir, "d")}, []string{"csi.example.dev", "VolumeSnapshotClass"}},
		"claim of -fail does not exist": {"a typing error would pass for success", []string{"-fail", "nope=x", "-store", filepath.Join(dir, "e")}, []string{"-fail", "nope"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr strings.Builder
			if code := run(t.Context(), tc.args, &stdout, &stderr); code != program.ExitOther {
				t.Errorf("%s: exit %d, want 1", tc.reason, code)
			}
			lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
			last := lines[len(lines)-1]
			for _, want := range tc.want {
				if !strings.Contains(stderr.String(), want) || !strings.HasPrefix(last, "backup:") {
					t.Errorf("%s: the last line %q does not name %q", tc.reason, last, want)
				}
			}
			if stdout.Len() > 0 {
				t.Errorf("%s: standard output is %q, want nothing", tc.reason, stdout.String())
			}
		})
	}
}

func withoutSnapshotClass(t *testing.T) string {
	t.Helper()
	var kept []string
	for doc := range strings.SplitSeq(string(demo), "\n---\n") {
		if !strings.Contains(doc, "kind: VolumeSnapshotClass") {
			kept = append(kept, doc)
		}
	}
	return strings.Join(kept, "\n---\n")
}
