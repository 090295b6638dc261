package driver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/sheetanchor/sheetanchor/backuptest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Keys of --extra-create-metadata.
const (
	claimNameKey         = "csi.storage.k8s.io/pvc/name"
	claimNamespaceKey    = "csi.storage.k8s.io/pvc/namespace"
	snapshotNameKey      = "csi.storage.k8s.io/volumesnapshot/name"
	snapshotNamespaceKey = "csi.storage.k8s.io/volumesnapshot/namespace"
	contentNameKey       = "csi.storage.k8s.io/volumesnapshotcontent/name"
)

// service answers CSI calls.
type service struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedGroupControllerServer

	name    string
	clock   func() time.Time
	store   *store
	storage *backuptest.Driver
	journal *journal
	limits  *limiters
	pending sync.Map // handles of groups that a call works at
}

// handle returns the handle of what a create call of that name makes, the same at each call.
func handle(kind, name string) string {
	sum := sha256.Sum256([]byte(name))
	return kind + "-" + hex.EncodeToString(sum[:8])
}

// joined returns "NAMESPACE/NAME" of two parameters, or "" without a name.
func joined(parameters map[string]string, namespaceKey, nameKey string) string {
	if parameters[nameKey] == "" {
		return ""
	}
	return parameters[namespaceKey] + "/" + parameters[nameKey]
}

// script returns the script for a claim as soon as it does not hang.
func (s *service) script(ctx context.Context, claim string, hangs func(Script) bool) (Script, error) {
	for {
		st, changed := s.store.watch()
		script := scriptFor(st.Rules, claim)
		if !hangs(script) {
			return script, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Script{}, status.FromContextError(ctx.Err()).Err()
		}
	}
}

// held returns the snapshot with that handle, if its cut is over.
func (s *service) held(id string) (backuptest.StoredSnapshot, bool) {
	for _, p := range s.storage.Snapshots() {
		if p.Handle == id {
			return p, true
		}
	}
	return backuptest.StoredSnapshot{}, false
}

// heldName returns the snapshot of that name, if its cut is over.
func (s *service) heldName(name string) (backuptest.StoredSnapshot, bool) {
	for _, p := range s.storage.Snapshots() {
		if p.Name == name {
			return p, true
		}
	}
	return backuptest.StoredSnapshot{}, false
}

// claimOf returns the claim of a stored snapshot as "NAMESPACE/CLAIM", or "".
func claimOf(p backuptest.StoredSnapshot) string {
	if p.Claim.Name == "" {
		return ""
	}
	return p.Claim.String()
}

// GetPluginInfo implements [csi.IdentityServer].
func (s *service) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: s.name, VendorVersion: "1"}, nil
}

// GetPluginCapabilities implements [csi.IdentityServer].
func (s *service) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	resp := &csi.GetPluginCapabilitiesResponse{}
	for _, t := range []csi.PluginCapability_Service_Type{
		csi.PluginCapability_Service_CONTROLLER_SERVICE,
		csi.PluginCapability_Service_GROUP_CONTROLLER_SERVICE,
	} {
		resp.Capabilities = append(resp.Capabilities, &csi.PluginCapability{
			Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: t}},
		})
	}
	return resp, nil
}

// Probe implements [csi.IdentityServer].
func (s *service) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

// ControllerGetCapabilities implements [csi.ControllerServer].
func (s *service) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	resp := &csi.ControllerGetCapabilitiesResponse{}
	for _, t := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
	} {
		resp.Capabilities = append(resp.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: t}},
		})
	}
	return resp, nil
}

// GroupControllerGetCapabilities implements [csi.GroupControllerServer].
func (s *service) GroupControllerGetCapabilities(context.Context, *csi.GroupControllerGetCapabilitiesRequest) (*csi.GroupControllerGetCapabilitiesResponse, error) {
	return &csi.GroupControllerGetCapabilitiesResponse{Capabilities: []*csi.GroupControllerServiceCapability{{
		Type: &csi.GroupControllerServiceCapability_Rpc{Rpc: &csi.GroupControllerServiceCapability_RPC{
			Type: csi.GroupControllerServiceCapability_RPC_CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT,
		}},
	}}}, nil
}

// enter keeps a second call away from a group until leave is called.
func (s *service) enter(group string) (leave func(), err error) {
	if _, busy := s.pending.LoadOrStore(group, true); busy {
		return nil, status.Errorf(codes.Aborted, "a call for group snapshot %s is under way", group)
	}
	return func() { s.pending.Delete(group) }, nil
}
