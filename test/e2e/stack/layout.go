package stack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"github.com/sheetanchor/sheetanchor/internal/atomicfile"
)

// The files of a stack's directory. Further there are pki, kubeconfig, logs, run and the data of etcd.
const (
	stateFile     = "state.json"
	auditPolicy   = "audit-policy.yaml"
	auditLog      = "audit.log"
	csiSocket     = "csi.sock"
	driverSocket  = "driver.sock"
	kubeletSocket = "kubelet.sock"
	kubeletRecord = "kubelet.jsonl"
)

// etcdPeer is the second port of etcd.
const etcdPeer = "etcd-peer"

// maxState bounds the files that are read back.
const maxState = 1 << 20

// layout is where everything of a stack is. It does not change while the stack is up.
type layout struct {
	dir string

	Bin      string         `json:"bin"`
	Ports    map[string]int `json:"ports"`
	Fsync    bool           `json:"fsync,omitempty"`
	KeepData bool           `json:"keepData,omitempty"`
}

func readLayout(dir string) (layout, error) {
	l := layout{dir: dir}
	data, err := atomicfile.OS{}.ReadFile(l.path(stateFile), maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return l, fmt.Errorf("%s: %w", dir, errors.Join(ErrNoStack, err))
	}
	if err != nil {
		return l, err
	}
	if err := json.Unmarshal(data, &l); err != nil {
		return l, fmt.Errorf("%s: %w", l.path(stateFile), err)
	}
	return l, nil
}

func (l layout) makeDirs() error {
	for _, name := range []string{"pki", "kubeconfig", "logs", "run"} {
		if err := os.Mkdir(l.path(name), 0o700); err != nil {
			return err
		}
	}
	return nil
}

// write makes the state file.
func (l layout) write() error {
	data, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(atomicfile.OS{}, l.path(stateFile), data)
}

func (l layout) path(name string) string { return filepath.Join(l.dir, name) }

func (l layout) key(name string) string { return filepath.Join(l.dir, "pki", name) }

func (l layout) log(component string) string { return filepath.Join(l.dir, "logs", component+".log") }

func (l layout) record(component string) string {
	return filepath.Join(l.dir, "run", component+".json")
}

// kubeconfig escapes what a file's name cannot hold.
func (l layout) kubeconfig(user string) string {
	return filepath.Join(l.dir, "kubeconfig", url.PathEscape(user)+".yaml")
}

func (l layout) address(port string) string { return "127.0.0.1:" + strconv.Itoa(l.Ports[port]) }

func (l layout) program(component string) string { return filepath.Join(l.Bin, component) }

func (l layout) crds() string { return filepath.Join(l.Bin, crdDir) }
