package stack

import (
	"path/filepath"
	"sync"

	"github.com/sheetanchor/sheetanchor/test/e2e/audit"
	"github.com/sheetanchor/sheetanchor/test/e2e/driver"
	"github.com/sheetanchor/sheetanchor/test/e2e/internal/unixsocket"
	"github.com/sheetanchor/sheetanchor/test/e2e/kubelet"
)

// Stack is a stack that is up, made by [Up] or [Attach]. The zero Stack is none: its methods return [ErrNoStack], as do
// the connections of its Config; its clients and its log return errors of their own.
type Stack struct {
	layout  layout
	ca      *authority
	driver  *driver.Client
	kubelet *kubelet.Client

	mu    sync.Mutex
	users map[string]pair // guarded by mu
}

// Attach returns the stack of a directory, whether [Up] was called by this program or by another. It returns
// [ErrNoStack] wrapped when the directory holds none, and the errors of the file system.
func Attach(dir string) (*Stack, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	l, err := readLayout(dir)
	if err != nil {
		return nil, err
	}
	ca, err := readAuthority(l.path("pki"))
	if err != nil {
		return nil, err
	}
	return newStack(l, ca)
}

func (s *Stack) isZero() bool { return s.layout.dir == "" }

func newStack(l layout, ca *authority) (*Stack, error) {
	d, err := driver.NewClient(unixsocket.Scheme + l.path(driverSocket))
	if err != nil {
		return nil, err
	}
	k, err := kubelet.NewClient(unixsocket.Scheme + l.path(kubeletSocket))
	if err != nil {
		return nil, err
	}
	return &Stack{layout: l, ca: ca, driver: d, kubelet: k, users: map[string]pair{}}, nil
}

// Driver speaks to the CSI driver: its scripts, what it holds, the calls it got. It is the same one at each call and
// goes on to work when the driver is started again.
func (s *Stack) Driver() *driver.Client { return s.driver }

// Kubelet speaks to the stub kubelet: its scripts and the commands that it was asked to run. It is the same one at each
// call and goes on to work when the kubelet is started again.
func (s *Stack) Kubelet() *kubelet.Client { return s.kubelet }

// Dir is the directory of the stack, absolute.
func (s *Stack) Dir() string { return s.layout.dir }

// Bin is the directory of the programs that the stack runs.
func (s *Stack) Bin() string { return s.layout.Bin }

// Node is the name of the cluster's only node, [NodeName].
func (s *Stack) Node() string { return NodeName }

// CSIEndpoint is where the CSI driver listens for its sidecars, as "unix:///absolute/path".
func (s *Stack) CSIEndpoint() string { return unixsocket.Scheme + s.layout.path(csiSocket) }

// LogPath is the file with all that a component wrote, of all its starts; each start begins with a line "--- " and its
// flags. The file need not exist.
func (s *Stack) LogPath(component string) string { return s.layout.log(component) }

// Audit is the log of all requests that the API server got, by user.
func (s *Stack) Audit() *audit.Log {
	if s.isZero() {
		return &audit.Log{}
	}
	return audit.Open(s.layout.path(auditLog))
}

// LogTail is the end of a component's log, or why it cannot be read.
func (s *Stack) LogTail(component string) string { return tail(s.layout.log(component)) }
