package sheetanchor_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const module = "github.com/sheetanchor/sheetanchor"

// layer says what a package may link, beyond the standard library and what Kubernetes' apimachinery brings.
type layer struct {
	reason   string
	ours     []string // packages of this module, besides internal/...
	clientGo bool     // may link k8s.io/client-go
	v6       bool     // may import external-snapshotter/client/v6 by itself; its types appear in no signature but snapv6's
}

// layers is design.md's layout. A package that is not here fails the test, so that a new one gets its line.
var layers = map[string]layer{
	"":                              {reason: "the root holds documentation"},
	"phase":                         {reason: "a tool that wants only phases links no client-go"},
	"phase/phasekube":               {reason: "phase on client-go", ours: []string{"phase"}, clientGo: true},
	"operations":                    {reason: "a tool that wants only operations links no client-go"},
	"operations/configmapstore":     {reason: "a store on client-go", ours: []string{"operations"}, clientGo: true},
	"operations/operationstest":     {reason: "checks any store, in any test", ours: []string{"operations"}},
	"csisnapshot":                   {reason: "snapshots become operations", ours: []string{"operations"}, clientGo: true},
	"csisnapshot/snapv6":            {reason: "the only place of client/v6", ours: []string{"csisnapshot", "operations"}, clientGo: true, v6: true},
	"csisnapshot/podexec":           {reason: "hooks through pod exec", ours: []string{"csisnapshot", "operations"}, clientGo: true},
	"volumeinfo":                    {reason: "records are plain data"},
	"volumeinfo/volumekube":         {reason: "what the records are made of, read from a cluster", ours: []string{"csisnapshot", "operations", "volumeinfo"}, clientGo: true},
	"finalize":                      {reason: "the last steps know the packages they finish", ours: []string{"csisnapshot", "operations", "volumeinfo"}, clientGo: true},
	"backuptest":                    {reason: "a harness that knows nothing of what it tests", clientGo: true, v6: true},
	"examples/backup":               {reason: "a program of a user", ours: []string{"*"}, clientGo: true, v6: true},
	"examples/restore":              {reason: "a program of a user", ours: []string{"*"}, clientGo: true},
	"examples/internal/program":     {reason: "plumbing of both programs", ours: []string{"*"}, clientGo: true},
	"examples/internal/programtest": {reason: "tests only", ours: []string{"*"}, clientGo: true, v6: true},
	"examples/reconciler":           {reason: "a program of a user", clientGo: true},
	"internal/apirequest":           {reason: "what two packages need"},
	"internal/apischema":            {reason: "schemas of custom resources, for backuptest"},
	"internal/apiserver":            {reason: "the machinery of backuptest", clientGo: true},
	"internal/atomicfile":           {reason: "what two packages need"},
	"internal/atomicfile/crashfs":   {reason: "tests only"},
	"internal/cmd/testcount":        {reason: "a tool of .ci/run"},
	"internal/conformance":          {reason: "scenarios for the fake and the real snapshot stack", ours: []string{"backuptest"}, clientGo: true, v6: true},
	"internal/golden":               {reason: "tests only"},
	"internal/gzipjson":             {reason: "what two packages need"},
	"internal/race":                 {reason: "tests only"},
	"internal/sealed":               {reason: "what two packages need"},
}

type listed struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

func TestImportDirections(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, p := range goList(t) {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		seen[name] = true
		rule, ok := layers[name]
		if !ok {
			t.Errorf("package %s has no line in layers", name)
			continue
		}
		for _, dep := range p.Deps {
			rest, own := strings.CutPrefix(dep, module+"/")
			switch {
			case own && strings.HasPrefix(rest, "internal/"):
			case own && !slices.Contains(rule.ours, rest) && !slices.Contains(rule.ours, "*"):
				t.Errorf("%s links %s, which its layer forbids (%s)", name, rest, rule.reason)
			case strings.HasPrefix(dep, "k8s.io/client-go/") && !rule.clientGo:
				t.Errorf("%s links %s, but must link no client-go (%s)", name, dep, rule.reason)
			case dep == "testing" && name != "internal/golden":
				t.Errorf("%s links testing into its users' programs", name)
			}
		}
		for _, dep := range p.Imports {
			if strings.HasPrefix(dep, "github.com/kubernetes-csi/external-snapshotter/") && !rule.v6 {
				t.Errorf("%s imports %s, which its layer forbids (%s)", name, dep, rule.reason)
			}
		}
	}
	for _, must := range []string{"phase", "phase/phasekube", "operations", "csisnapshot", "csisnapshot/snapv6", "csisnapshot/podexec", "volumeinfo", "finalize", "backuptest", "examples/backup"} {
		if !seen[must] {
			t.Errorf("package %s is missing", must)
		}
	}
}

func TestDirectDependencies(t *testing.T) {
	t.Parallel()
	want := []string{
		"github.com/go-logr/logr",
		"github.com/google/go-cmp",
		"github.com/kubernetes-csi/external-snapshotter/client/v6",
		"go.uber.org/goleak",
		"golang.org/x/sync",
		"k8s.io/api",
		"k8s.io/apimachinery",
		"k8s.io/client-go",
	}
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
		Replace []struct{ Old struct{ Path string } }
	}
	if err := json.Unmarshal(run(t, "mod", "edit", "-json"), &mod); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range mod.Require {
		if !r.Indirect {
			got = append(got, r.Path)
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("direct dependencies of the root module (-want +got):\n%s", diff)
	}
	if len(mod.Replace) > 0 {
		t.Errorf("go.mod has replace lines, which users of a library do not inherit: %v", mod.Replace)
	}
}

func goList(t *testing.T) []listed {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(run(t, "list", "-deps=false", "-json=ImportPath,Imports,Deps", "./...")))
	var all []listed
	for {
		var p listed
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func run(t *testing.T, args ...string) []byte {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return out
}
