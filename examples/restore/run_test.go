package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/examples/internal/program"
	"github.com/sheetanchor/sheetanchor/examples/internal/programtest"
	"github.com/sheetanchor/sheetanchor/phase"
)

// runHere is the program in virtual time.
func runHere(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return programtest.Run(t, run, args...)
}

func decode(t *testing.T, stdout string) result {
	t.Helper()
	return programtest.Decode[result](t, stdout)
}

// checkVolumes holds what every restored volume must be: in the namespace, with the policy and the labels of the backup.
func checkVolumes(t *testing.T, r result, namespace string, n int) {
	t.Helper()
	whole := 0
	for _, v := range r.Volumes {
		if v.PV == "" {
			continue
		}
		whole++
		if v.Namespace != namespace || v.After.Policy != "Retain" || v.After.Labels["example.dev/tier"] != "gold" {
			t.Errorf("volume %+v, want it in namespace %s with policy Retain and its labels", v, namespace)
		}
	}
	if len(r.Volumes) != 7 || whole != n {
		t.Errorf("%d volumes, %d restored, want 7 and %d", len(r.Volumes), whole, n)
	}
}

// fin-8, F6: the volumes of the backup are back, with the policy and labels that their provisioner did not give them.
func TestCompleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stdout, stderr, code := runHere(t, "-o", "json")
		if code != program.ExitCompleted || stderr != "" {
			t.Fatalf("exit %d, stderr %q, want 0 and nothing", code, stderr)
		}
		r := decode(t, stdout)
		checkVolumes(t, r, "shop", 7)
		var path []string
		for _, tr := range r.Transitions {
			path = append(path, tr.From+" "+tr.Event+" "+tr.To)
		}
		want := []string{"New Start InProgress", "InProgress Finalize Finalizing", "Finalizing Completed Completed"}
		if diff := cmp.Diff(want, path); diff != "" {
			t.Errorf("transitions (-want +got):\n%s", diff)
		}
		for _, v := range r.Volumes {
			if v.Before == nil || v.Before.Policy != "Delete" || len(v.Before.Labels) != 0 {
				t.Errorf("volume %s was %+v before, want what its class gives", v.PVC, v.Before)
			}
		}
		if len(r.Errors)+len(r.Warnings) > 0 || r.Requests["patch persistentvolumes"] != 7 {
			t.Errorf("errors %q, warnings %q, requests %v", r.Errors, r.Warnings, r.Requests)
		}
	})
}

func TestText(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stdout, _, code := runHere(t)
		for _, want := range []string{"phase Finalizing -> Completed", "BEFORE", "Retain example.dev/tier=gold", "\nCompleted after "} {
			if !strings.Contains(stdout, want) {
				t.Errorf("exit %d, the output does not say %q:\n%s", code, want, stdout)
			}
		}
	})
}

// fin-12: with -map nothing is asked of the old namespace, and a second run finds the restore done.
func TestMap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := recorded(t)
		for i := range 2 {
			stdout, stderr, code := runHere(t, "-o", "json", "-store", dir, "-map", "shop=market")
			if code != program.ExitCompleted {
				t.Fatalf("run %d: exit %d, stderr %q", i, code, stderr)
			}
			r := decode(t, stdout)
			checkVolumes(t, r, "market", 7)
			if done := len(r.Transitions) == 0; done != (i == 1) {
				t.Errorf("run %d made the transitions %v", i, r.Transitions)
			}
		}
		_, stderr, code := runHere(t, "-store", dir, "-map", "shop=market", "-name", "second")
		if code != program.ExitPartiallyFailed {
			t.Errorf("a restore over claims of another: exit %d, stderr %q, want 2", code, stderr)
		}
	})
}

// A claim that the server refuses is an error by name; the other volumes are restored.
func TestFail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stdout, stderr, code := runHere(t, "-o", "json", "-fail", "media=exceeded quota")
		if code != program.ExitPartiallyFailed {
			t.Fatalf("exit %d, stderr %q, want 2", code, stderr)
		}
		r := decode(t, stdout)
		checkVolumes(t, r, "shop", 6)
		if r.Phase != phase.PartiallyFailed || len(r.Errors) != 1 || !strings.Contains(r.Errors[0], "shop/media") || !strings.Contains(r.Errors[0], "exceeded quota") {
			t.Errorf("phase %s, errors %q, want PartiallyFailed and shop/media with its reason", r.Phase, r.Errors)
		}
	})
}

func TestRefused(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	tests := map[string]struct {
		args []string
		want string
	}{
		"output":                          {[]string{"-o", "xml"}, `-o "xml"`},
		"map":                             {[]string{"-map", "shop"}, "want OLD=NEW"},
		"map target":                      {[]string{"-map", "shop=Bad_Name"}, "-map shop=Bad_Name"},
		"argument":                        {[]string{"now"}, `unexpected argument "now"`},
		"name":                            {[]string{"-name", "A b"}, "-name"},
		"timeout":                         {[]string{"-timeout", "0s"}, "-timeout"},
		"kubeconfig":                      {[]string{"-kubeconfig", "x"}, "-kubeconfig needs -store"},
		"fail":                            {[]string{"-kubeconfig", "x", "-store", empty, "-fail", "a=b"}, "-fail is for the embedded cluster"},
		"no file":                         {[]string{"-kubeconfig", filepath.Join(empty, "nothing"), "-store", empty}, "-kubeconfig"},
		"empty store":                     {[]string{"-store", empty}, "there is no driver.json"},
		"fail, a claim that is not there": {[]string{"-fail", "nosuch=x"}, "-fail nosuch: backup demo has no such claim"},
		"map, a namespace of no volume":   {[]string{"-map", "demo=dev"}, "-map demo=dev: backup demo has no volume of namespace demo"},
		"map, twice":                      {[]string{"-map", "shop=a", "-map", "shop=b"}, "-map: shop is given twice, as a and b"},
		"class that is not there":         {[]string{"-class", "nosuch"}, "-class nosuch: the cluster has no such storage class"},
		"other backup":                    {[]string{"-backup", "other"}, "no volume of a backup named other"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, stderr, code := runHere(t, tc.args...)
			if code != program.ExitOther || !strings.Contains(stderr, tc.want) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("exit %d, stderr %q, want 1 and one line with %q", code, stderr, tc.want)
			}
		})
	}
	store := recorded(t)
	if _, stderr, code := runHere(t, "-store", store, "-class", "nosuch"); code != program.ExitOther {
		t.Errorf("exit %d, stderr %q, want 1", code, stderr)
	}
	if _, stderr, code := runHere(t, "-store", store, "-o", "json"); code != program.ExitCompleted {
		t.Errorf("after a refused class: exit %d, stderr %q, want 0 and nothing left of the refusal", code, stderr)
	}
	if _, stderr, code := runHere(t, "-h"); code != program.ExitCompleted || !strings.Contains(stderr, "usage: restore") {
		t.Errorf("-h: exit %d, %q", code, stderr)
	}
}

// recorded is a store with the recorded backup.
func recorded(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	backup := filepath.Join(dir, "backups", "demo")
	err := os.MkdirAll(backup, 0o700)
	for file, data := range map[string][]byte{filepath.Join(backup, "demo-volumeinfo.json.gz"): recordedVolumes, filepath.Join(dir, "driver.json"): recordedDriver} {
		if err == nil {
			err = os.WriteFile(file, data, 0o600)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
