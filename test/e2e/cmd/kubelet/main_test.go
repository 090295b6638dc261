package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const kubeconfig = `{"apiVersion":"v1","kind":"Config","current-context":"a","contexts":[{"name":"a","context":{"cluster":"a"}}],
"clusters":[{"name":"a","cluster":{"server":"http://127.0.0.1:1"}}]}`

// What is wrong with the flags is told, and nothing is served.
func TestRunRefuses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		reason string
		args   []string
		want   []string
	}{
		"no flag":              {reason: "it must not take the cluster it runs in for the stack's", want: []string{"-kubeconfig: must not be empty"}},
		"no such file":         {reason: "the flag and the file are named", args: []string{"-kubeconfig", file + "x"}, want: []string{`-kubeconfig "` + file + `x"`}},
		"an unknown flag":      {reason: "a misspelt flag must not be passed over", args: []string{"-nod", "x"}, want: []string{"flag provided but not defined: -nod"}},
		"an argument":          {reason: "there are none", args: []string{"-node", "x", "y"}, want: []string{`unexpected argument "y"`}},
		"the kubeconfig alone": {reason: "all others are needed", args: []string{"-kubeconfig", file}, want: []string{"Node:", "Listen:", "CertFile:", "KeyFile:", "ClientCAFile:", "RecordFile:", "Control:"}},
		"every flag": {
			reason: "each flag sets its field: the files are what is missing",
			args:   []string{"-kubeconfig", file, "-node", "n", "-listen", "127.0.0.1:0", "-cert", file + "c", "-key", file + "k", "-client-ca", file + "a", "-record", file + "r", "-control", "unix://" + file + "s"},
			want:   []string{"CertFile, KeyFile: open " + file + "c"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := run(t.Context(), tc.args)
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: run(%q) = %v, want an error with %q", tc.reason, tc.args, err, want)
				}
			}
		})
	}
}
