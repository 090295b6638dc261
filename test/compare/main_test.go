package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sheetanchor/sheetanchor/test/compare/internal/loadtest"
)

// asProgram makes this test binary the program itself.
const asProgram = "SHEETANCHOR_COMPARE_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestParse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args  []string
		want  loadtest.Options
		match string // a workload that -run takes
		fault string // what standard error says
	}{
		"nothing takes all":              {match: "anything"},
		"all flags":                      {args: []string{"-run", "^cut$", "-short", "-json", "-check"}, want: loadtest.Options{Short: true, JSON: true, Check: true}, match: "cut"},
		"an unknown flag is refused":     {args: []string{"-fast"}, fault: "-fast"},
		"an argument is refused":         {args: []string{"cut"}, fault: `"cut"`},
		"a broken pattern is refused":    {args: []string{"-run", "("}, fault: "-run"},
		"a pattern needs its expression": {args: []string{"-run"}, fault: "-run"},
	} {
		var stderr bytes.Buffer
		o, err := parse(c.args, &stderr)
		if c.fault != "" {
			if err == nil || !strings.Contains(stderr.String(), c.fault) {
				t.Errorf("%s: error %v, told as %q, want %q in it", name, err, stderr.String(), c.fault)
			}
			continue
		}
		if err != nil || o.Short != c.want.Short || o.JSON != c.want.JSON || o.Check != c.want.Check || !o.Run.MatchString(c.match) {
			t.Errorf("%s: %+v, %v, want %+v", name, o, err, c.want)
		}
	}
}

// program runs the program and returns its standard output, standard error and exit code.
func program(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	exit, died := errors.AsType[*exec.ExitError](err)
	switch {
	case died:
		code = exit.ExitCode()
	case err != nil:
		t.Fatal(err)
	}
	return out.String(), errs.String(), code
}

func TestProgram(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		"a table, checked":               {[]string{"-run", "^freeze-window$", "-short", "-check"}, 0, "| freeze-window | cuts at 3 and 4 s", "PASS"},
		"nothing to check is a failure":  {[]string{"-run", "^no such workload$", "-check"}, 1, "", "nothing was measured"},
		"nothing unchecked is a success": {[]string{"-run", "^no such workload$"}, 0, "Velero v1.", ""},
		"bad flags":                      {[]string{"-nonsense"}, 2, "", "nonsense"},
		"help":                           {[]string{"-h"}, 0, "", "-check"},
	} {
		stdout, stderr, code := program(t, c.args...)
		if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q, want %d, %q and %q", name, code, stdout, stderr, c.code, c.stdout, c.stderr)
		}
	}
}

// The JSON is one document and nothing else, with the figures of the table.
func TestJSON(t *testing.T) {
	t.Parallel()
	stdout, stderr, code := program(t, "-run", "^freeze-window$", "-json")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	var doc struct {
		Title string
		Rows  []struct {
			Workload            string
			Velero, Sheetanchor struct{ Value float64 }
			Met                 bool
		}
	}
	dec := json.NewDecoder(strings.NewReader(stdout))
	if err := dec.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(dec.Buffered()); err != nil || strings.TrimSpace(string(rest)) != "" {
		t.Errorf("behind the document stands %q, %v", rest, err)
	}
	// Velero's poll of 5 s sees cuts of 3 and 4 s after 10 s, one after the other.
	if len(doc.Rows) != 3 || doc.Rows[0].Velero.Value != 10 || doc.Rows[0].Sheetanchor.Value != 4 || !doc.Rows[0].Met {
		t.Errorf("the document holds %+v", doc)
	}
}
