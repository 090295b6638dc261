package stack

import (
	"context"
	"fmt"
)

// The components of a stack, by which all methods name them.
const (
	Etcd               = "etcd"
	APIServer          = "kube-apiserver"
	ControllerManager  = "kube-controller-manager"
	SnapshotController = "snapshot-controller"
	Snapshotter        = "csi-snapshotter"
	Provisioner        = "csi-provisioner"
	Driver             = "driver"
	Kubelet            = "kubelet"
)

// component is how one program is run. Its program has its name, and so has its user at the API server.
type component struct {
	name    string
	args    func(l layout) []string
	healthy func(ctx context.Context, s *Stack) error // one look; nil when it serves
	follows string                                    // the component that it ends with, and is started again with
}

// components are all there are, in the order in which they start.
func components() []component {
	return []component{
		{name: Etcd, args: etcdArgs, healthy: etcdHealthy},
		{name: APIServer, args: apiServerArgs, healthy: apiServerHealthy},
		{name: ControllerManager, args: controllerManagerArgs, healthy: controllerManagerHealthy},
		{name: SnapshotController, args: snapshotControllerArgs, healthy: snapshotControllerHealthy},
		{name: Driver, args: driverArgs, healthy: driverHealthy},
		{name: Snapshotter, args: snapshotterArgs, healthy: sidecarHealthy(Snapshotter), follows: Driver},
		{name: Provisioner, args: provisionerArgs, healthy: sidecarHealthy(Provisioner), follows: Driver},
		{name: Kubelet, args: kubeletArgs, healthy: kubeletHealthy},
	}
}

// Components returns the names of all components in the order in which they start.
func Components() []string {
	var names []string
	for _, c := range components() {
		names = append(names, c.name)
	}
	return names
}

func find(name string) (component, error) {
	for _, c := range components() {
		if c.name == name {
			return c, nil
		}
	}
	return component{}, fmt.Errorf("%q: %w", name, ErrComponent)
}
