package velerotest

import (
	"errors"
	"io"
	"runtime/debug"

	groupsv1beta2 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1beta2"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/sirupsen/logrus"
	velerov1 "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	velerov2 "github.com/vmware-tanzu/velero/pkg/apis/velero/v2alpha1"
	veleroclient "github.com/vmware-tanzu/velero/pkg/client"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

const velero = "github.com/vmware-tanzu/velero"

// Version is that of the Velero in this program, by its build information.
func Version() string {
	info, _ := debug.ReadBuildInfo()
	if info != nil {
		for _, m := range info.Deps {
			if m.Path == velero {
				return m.Version
			}
		}
	}
	return "unknown version"
}

// Logger is a logger that writes nothing.
func Logger() logrus.FieldLogger {
	l := logrus.New()
	l.SetOutput(io.Discard)
	l.SetLevel(logrus.PanicLevel)
	return l
}

// Kinds are Velero's own resources, for backuptest.Options.
var Kinds = []backuptest.Resource{
	{Group: "velero.io", Version: "v1", Kind: "Backup", Namespaced: true},
	{Group: "velero.io", Version: "v1", Kind: "Restore", Namespaced: true},
	{Group: "velero.io", Version: "v1", Kind: "BackupStorageLocation", Namespaced: true},
}

// Scheme has the types that Velero's own client has and that are used here.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(velerov1.AddToScheme(s), velerov2.AddToScheme(s), scheme.AddToScheme(s), snapshotv1.AddToScheme(s), groupsv1beta2.AddToScheme(s))
}

// NewClient returns a client as Velero's server and plugins have one: it reads from the API server, without a cache.
func NewClient(config *rest.Config) (client.Client, error) {
	s, err := Scheme()
	if err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: s})
}

// factory is what Velero's plugins take a client from.
type factory struct {
	veleroclient.Factory

	client client.Client
}

func (f factory) KubebuilderClient() (client.Client, error) { return f.client, nil }
