package velerotest

import (
	"errors"
	"fmt"

	"github.com/sirupsen/logrus"
	velerov1 "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	"github.com/vmware-tanzu/velero/pkg/plugin/clientmgmt"
	velerostore "github.com/vmware-tanzu/velero/pkg/plugin/velero"
	biav2 "github.com/vmware-tanzu/velero/pkg/plugin/velero/backupitemaction/v2"
)

// Manager gives Velero's reconcilers their plugins without processes.
type Manager struct {
	clientmgmt.Manager

	Objects *Objects
	Actions map[string]biav2.BackupItemAction
}

// New is the constructor that reconcilers take.
func (m Manager) New(logrus.FieldLogger) clientmgmt.Manager { return m }

// GetObjectStore returns the objects.
func (m Manager) GetObjectStore(string) (velerostore.ObjectStore, error) { return m.Objects, nil }

// GetBackupItemActionV2 returns the action of the name.
func (m Manager) GetBackupItemActionV2(name string) (biav2.BackupItemAction, error) {
	if a, ok := m.Actions[name]; ok {
		return a, nil
	}
	return nil, fmt.Errorf("no action %s", name)
}

// GetBackupItemActionsV2 returns all actions.
func (m Manager) GetBackupItemActionsV2() ([]biav2.BackupItemAction, error) {
	var all []biav2.BackupItemAction
	for _, a := range m.Actions {
		all = append(all, a)
	}
	return all, nil
}

// CleanupClients has nothing to end.
func (Manager) CleanupClients() {}

// ActionName is the name of a [Scripted] action.
const ActionName = "example.io/scripted"

// Scripted is an action whose answers a test gives.
type Scripted struct {
	biav2.BackupItemAction

	OnProgress func(id string) (velerostore.OperationProgress, error)
	OnCancel   func(id string) error
}

// Name is the action's.
func (Scripted) Name() string { return ActionName }

// Progress answers as told.
func (s Scripted) Progress(id string, _ *velerov1.Backup) (velerostore.OperationProgress, error) {
	if s.OnProgress == nil {
		return velerostore.OperationProgress{}, errors.New("no progress scripted")
	}
	return s.OnProgress(id)
}

// Cancel answers as told, or that it has stopped.
func (s Scripted) Cancel(id string, _ *velerov1.Backup) error {
	if s.OnCancel == nil {
		return nil
	}
	return s.OnCancel(id)
}
