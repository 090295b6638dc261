package stack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	modulePath = "github.com/sheetanchor/sheetanchor/test/e2e"
	crdModule  = "github.com/kubernetes-csi/external-snapshotter/client/v8"
	crdDir     = "crd" // in the directory of programs
	goGrace    = 10 * time.Second
)

// group is the programs that one module pins, built together.
type group struct {
	name, dir string
	programs  map[string]string // package by the program's name
	ldflags   string
	crds      bool // whether the CRDs of the snapshot API come from this module
	stamp     string
}

func newGroups(ctx context.Context, module string) ([]group, error) {
	kube := filepath.Join(module, "kube")
	version, err := kubeVersion(filepath.Join(kube, "go.mod"))
	if err != nil {
		return nil, err
	}
	const strip = "-s -w"
	groups := []group{
		{
			name: "csi", dir: module, ldflags: strip, crds: true,
			programs: map[string]string{
				Etcd:               "go.etcd.io/etcd/server/v3",
				Snapshotter:        "github.com/kubernetes-csi/external-snapshotter/v8/cmd/csi-snapshotter",
				SnapshotController: "github.com/kubernetes-csi/external-snapshotter/v8/cmd/snapshot-controller",
				Provisioner:        "github.com/kubernetes-csi/external-provisioner/v6/cmd/csi-provisioner",
			},
		},
		{
			name: "kube", dir: kube, ldflags: strip + " " + version,
			programs: map[string]string{
				APIServer:         "k8s.io/kubernetes/cmd/kube-apiserver",
				ControllerManager: "k8s.io/kubernetes/cmd/kube-controller-manager",
			},
		},
	}
	for i := range groups {
		if err := groups[i].setStamp(ctx); err != nil {
			return nil, err
		}
	}
	return groups, nil
}

// findModule looks for the module's directory from the working directory upwards.
func findModule() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for start := dir; ; dir = filepath.Dir(dir) {
		if data, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && bytes.HasPrefix(data, []byte("module "+modulePath+"\n")) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not in module %s", start, modulePath)
		}
	}
}

var requireKube = regexp.MustCompile(`(?m)^(?:require\s+|\s+)k8s\.io/kubernetes (v(\d+)\.(\d+)\.\d+)$`)

// kubeVersion returns the linker's flags that tell Kubernetes' programs the version that go.mod requires: without them
// the API server answers /version with a text that clients cannot parse.
func kubeVersion(gomod string) (ldflags string, err error) {
	data, err := os.ReadFile(gomod)
	if err != nil {
		return "", err
	}
	m := requireKube.FindSubmatch(data)
	if m == nil {
		return "", fmt.Errorf("%s requires no version of k8s.io/kubernetes", gomod)
	}
	const pkg = "-X k8s.io/component-base/version."
	return fmt.Sprintf("%sgitVersion=%s %sgitMajor=%s %sgitMinor=%s", pkg, m[1], pkg, m[2], pkg, m[3]), nil
}

// setStamp names what the build depends on.
func (g *group) setStamp(ctx context.Context) error {
	goVersion, err := goOutput(ctx, g.dir, "env", "GOVERSION", "GOOS", "GOARCH", "CGO_ENABLED")
	if err != nil {
		return err
	}
	data, err := os.ReadFile(filepath.Join(g.dir, "go.mod"))
	if err != nil {
		return err
	}
	g.stamp = stampOf(goVersion, g.ldflags, fmt.Sprint(g.programs), requirements(string(data)))
	return nil
}

// requirements is what a go.mod says of versions, whatever its order and comments are. It names all modules that are
// built, so that go.sum adds nothing.
func requirements(gomod string) string {
	var lines []string
	for line := range strings.Lines(gomod) {
		line, _, _ = strings.Cut(line, "//")
		line = strings.TrimSpace(strings.TrimPrefix(line, "require"))
		if line != "" && line != "(" && line != ")" {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func stampOf(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:6])
}

// build makes the directory out with the group's programs and CRDs.
func (g *group) build(ctx context.Context, out string) error {
	if err := os.Mkdir(out, 0o700); err != nil {
		return err
	}
	args := []string{"build", "-buildvcs=false", "-ldflags", g.ldflags, "-o", out + string(filepath.Separator)}
	for _, pkg := range g.programs {
		args = append(args, pkg)
	}
	if err := goRun(ctx, g.dir, args...); err != nil {
		return err
	}
	for name, pkg := range g.programs {
		if err := os.Rename(filepath.Join(out, programName(pkg)), filepath.Join(out, name)); err != nil {
			return err
		}
	}
	if !g.crds {
		return nil
	}
	client, err := goOutput(ctx, g.dir, "list", "-m", "-f", "{{.Dir}}", crdModule)
	if err != nil {
		return err
	}
	return copyCRDs(filepath.Join(client, "config", "crd"), filepath.Join(out, crdDir))
}

// programName is how the go command names the program of a package: by its last element that is no major version.
func programName(pkg string) string {
	base := path.Base(pkg)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		return path.Base(path.Dir(pkg))
	}
	return base
}

func copyCRDs(from, to string) error {
	names, err := filepath.Glob(filepath.Join(from, "*.storage.k8s.io_*.yaml"))
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fmt.Errorf("CRDs in %s: %w", from, fs.ErrNotExist)
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(name)), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func goRun(ctx context.Context, dir string, args ...string) error {
	_, err := goOutput(ctx, dir, args...)
	return err
}

// goOutput runs the go command in dir and returns its standard output. Its error holds what the command said.
func goOutput(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it ends its compilers
	cmd.WaitDelay = goGrace
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	if err != nil {
		return "", fmt.Errorf("go %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}
