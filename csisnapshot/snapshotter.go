package csisnapshot

import (
	"errors"
	"fmt"

	"k8s.io/client-go/kubernetes"
)

// Snapshotter takes, keeps and deletes CSI snapshots. [New] makes one; its methods may be called from several goroutines
// at once, except that Cuts must not share a document of freeze intents.
type Snapshotter struct {
	core  kubernetes.Interface
	snaps Client
	opts  Options // with defaults
}

// New makes a snapshotter on a cluster's core client and snapshot client. It sends no request. Faults of the options are
// returned together, each naming its field.
func New(core kubernetes.Interface, snaps Client, opts Options) (*Snapshotter, error) {
	var errs []error
	if core == nil {
		errs = append(errs, errors.New("core client is nil"))
	}
	if snaps == nil {
		errs = append(errs, errors.New("snapshot client is nil"))
	}
	if err := errors.Join(append(errs, opts.validate())...); err != nil {
		return nil, fmt.Errorf("csisnapshot: %w", err)
	}
	return &Snapshotter{core: core, snaps: snaps, opts: opts.withDefaults()}, nil
}
