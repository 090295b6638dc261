package sheetanchor_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// withoutExample are the functions and methods that no Example has to show, as patterns of path.Match on package.Function and
// package.Type.Method, each with the reason.
var withoutExample = map[string]string{
	"*.*.Error":         "fmt calls it",
	"*.*.String":        "fmt calls it",
	"*.*.Unwrap":        "package errors calls it",
	"*.*.Is":            "package errors calls it",
	"*.*.MarshalJSON":   "encoding/json calls it",
	"*.*.UnmarshalJSON": "encoding/json calls it",
	"*.*.Equal":         "a comparison",
	"*.*.Compare":       "a comparison",
	"*.*.Validate":      "what takes the value validates it",
	"*.*.Capabilities":  "a Map asks a store",

	"backuptest.Claim.PV":               "beside Claim.PVC",
	"backuptest.Driver.DeleteSnapshot":  "a SnapshotController calls it",
	"backuptest.Driver.Serves":          "a SnapshotController calls it",
	"backuptest.Hooks.Hooks":            "Cut calls it",
	"backuptest.Snapshot.ContentName":   "a name",
	"backuptest.Snapshot.VSC":           "beside Snapshot.VS",
	"backuptest.Store.Write":            "a Map and a Slot call it",
	"configmapstore.Store.*":            "a Map and a Slot call them",
	"csisnapshot.Class.IsDefault":       "SelectClass calls it",
	"csisnapshot.Meta.Terminating":      "an accessor",
	"csisnapshot.NewWatch":              "for snapv6: the client is sealed",
	"csisnapshot.Watch.Decode":          "for snapv6: the client is sealed",
	"csisnapshot.PodHooks.Empty":        "an accessor",
	"csisnapshot.Result.Reached":        "an accessor",
	"operations.CheckName":              "for who writes a store; operationstest tells",
	"operations.Phase.IsKnown":          "an accessor",
	"operations.WriteOnceStore.Finish":  "Map.Complete calls it",
	"phasekube.ConfigMapFields":         "NewConfigMap calls it",
	"phasekube.Object.Update":           "an Applier calls it",
	"phasekube.Warnings.HandleWarning*": "client-go calls it",
	"podexec.Quiescer.Exec":             "Cut calls it",
}

// Every entry point has an Example. What counts as shown is what godoc prints, the code of an Example of
// the package itself, not its helpers. Types are not looked at: a method is shown by any selector of its name.
func TestExamples(t *testing.T) {
	t.Parallel()
	excused := map[string]bool{}
	for folder := range layers {
		if folder == "" || strings.Contains(folder, "internal") || strings.HasPrefix(folder, "examples/") {
			continue
		}
		pkg := path.Base(folder)
		names, shown := entryPoints(t, folder)
		if len(names) == 0 {
			t.Errorf("package %s has no exported function", folder)
		}
		for _, name := range names {
			_, method, isMethod := strings.Cut(name, ".")
			if shown[pkg+"."+name] || isMethod && shown["."+method] {
				continue
			}
			ok := false
			for pattern := range withoutExample {
				if match, _ := path.Match(pattern, pkg+"."+name); match {
					ok, excused[pattern] = true, true
				}
			}
			if !ok {
				t.Errorf("no Example of package %s shows %s", folder, name)
			}
		}
	}
	for pattern, reason := range withoutExample {
		if !excused[pattern] || reason == "" {
			t.Errorf("withoutExample[%q] = %q is not needed, or has no reason", pattern, reason)
		}
	}
}

// entryPoints returns the exported functions ("New") and methods ("Runner.Step") of the package in the folder, and what its
// Examples select: "pkg.New" of an identifier, ".Step" of anything.
func entryPoints(t *testing.T, folder string) (funcs []string, shown map[string]bool) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	fset := token.NewFileSet()
	for _, name := range names {
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	pkg, err := doc.NewFromFiles(fset, files, path.Join(module, folder))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range pkg.Funcs {
		funcs = append(funcs, f.Name)
	}
	for _, typ := range pkg.Types {
		for _, f := range typ.Funcs {
			funcs = append(funcs, f.Name)
		}
		for _, m := range typ.Methods {
			funcs = append(funcs, typ.Name+"."+m.Name)
		}
	}
	slices.Sort(funcs)
	shown = map[string]bool{}
	for _, example := range doc.Examples(files...) {
		ast.Inspect(example.Code, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				shown["."+sel.Sel.Name] = true
				if x, ok := sel.X.(*ast.Ident); ok {
					shown[x.Name+"."+sel.Sel.Name] = true
				}
			}
			return true
		})
	}
	return funcs, shown
}
