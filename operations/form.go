package operations

import (
	"errors"
	"fmt"
)

// Form says in which of Velero's two files the operations stand. The zero Form is invalid.
type Form uint8

// The two forms.
const (
	// BackupForm is the file of a backup's item operations.
	BackupForm Form = iota + 1
	// RestoreForm is the file of a restore's item operations. It has no place for [Operation.PostItems].
	RestoreForm
)

// FileName returns the name under which a [Store] keeps the operations of the backup or restore of that name. It does
// not check the name: [Key.Validate] does.
func (f Form) FileName(name string) string {
	if f == RestoreForm {
		return "restores/" + name + "/restore-" + name + "-itemoperations.json.gz"
	}
	return "backups/" + name + "/" + name + "-itemoperations.json.gz"
}

// String returns "backup" or "restore", for people.
func (f Form) String() string {
	switch f {
	case BackupForm:
		return "backup"
	case RestoreForm:
		return "restore"
	default:
		return fmt.Sprintf("Form(%d)", uint8(f))
	}
}

func (f Form) validate() error {
	if f != BackupForm && f != RestoreForm {
		return errors.New("form: want BackupForm or RestoreForm")
	}
	return nil
}
