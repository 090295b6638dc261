package velerotest

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	velerov1 "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	"github.com/vmware-tanzu/velero/pkg/persistence"
	velerostore "github.com/vmware-tanzu/velero/pkg/plugin/velero"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Objects is an object store in memory, behind which Velero's own backup store works. The zero Objects are empty.
type Objects struct {
	// Latency is how long each put and get takes.
	Latency time.Duration
	// Fail is asked before each put; an error is returned to the caller. Nil: none fails. It is called without a lock, so it
	// may also block.
	Fail func(key string) error

	mu   sync.Mutex
	data map[string][]byte
}

var _ velerostore.ObjectStore = (*Objects)(nil)

// Init implements the object store.
func (*Objects) Init(map[string]string) error { return nil }

// PutObject implements the object store.
func (o *Objects) PutObject(_, key string, body io.Reader) error {
	if o.Fail != nil {
		if err := o.Fail(key); err != nil {
			return err
		}
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	o.wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.data == nil {
		o.data = map[string][]byte{}
	}
	o.data[key] = data
	return nil
}

func (o *Objects) wait() {
	if o.Latency > 0 {
		<-time.NewTimer(o.Latency).C
	}
}

// ObjectExists implements the object store.
func (o *Objects) ObjectExists(_, key string) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, ok := o.data[key]
	return ok, nil
}

// GetObject implements the object store.
func (o *Objects) GetObject(_, key string) (io.ReadCloser, error) {
	o.wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	data, ok := o.data[key]
	if !ok {
		return nil, fmt.Errorf("no object %s", key)
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

// ListCommonPrefixes implements the object store; nothing here asks for it.
func (*Objects) ListCommonPrefixes(_, _, _ string) ([]string, error) { return nil, nil }

// ListObjects implements the object store.
func (o *Objects) ListObjects(_, prefix string) ([]string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	keys := slices.Sorted(maps.Keys(o.data))
	return slices.DeleteFunc(keys, func(key string) bool { return !strings.HasPrefix(key, prefix) }), nil
}

// DeleteObject implements the object store.
func (o *Objects) DeleteObject(_, key string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.data, key)
	return nil
}

// CreateSignedURL implements the object store; nothing here asks for it.
func (*Objects) CreateSignedURL(_, _ string, _ time.Duration) (string, error) { return "", nil }

// GetObjectStore makes Objects the getter of themselves.
func (o *Objects) GetObjectStore(string) (velerostore.ObjectStore, error) { return o, nil }

// Location is the storage location that backups are in.
func Location() *velerov1.BackupStorageLocation {
	return &velerov1.BackupStorageLocation{
		TypeMeta:   metav1.TypeMeta{APIVersion: velerov1.SchemeGroupVersion.String(), Kind: "BackupStorageLocation"},
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "default"},
		Spec: velerov1.BackupStorageLocationSpec{
			Provider:    "memory",
			StorageType: velerov1.StorageType{ObjectStorage: &velerov1.ObjectStorageLocation{Bucket: "bucket"}},
		},
	}
}

// Store is Velero's own backup store over the objects.
func (o *Objects) Store() (persistence.BackupStore, error) {
	return persistence.NewObjectBackupStoreGetter(nil).Get(Location(), o, Logger())
}
