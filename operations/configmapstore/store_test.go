package configmapstore_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/operations/configmapstore"
	"github.com/sheetanchor/sheetanchor/operations/operationstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	namespace = "backup-operator"
	docName   = "backups/nightly/nightly-itemoperations.json.gz"
	// mapName is a contract: a later version finds the ConfigMaps of this one by it.
	mapName = "sheetanchor-f0e78e0c8de813bfcc594d5cadaa0a7dbdfaef96"
)

func cluster(t *testing.T) *backuptest.Cluster {
	t.Helper()
	c := backuptest.New(t)
	if err := c.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		t.Fatal(err)
	}
	return c
}

func client(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	config.QPS = -1
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return core
}

func newStore(t *testing.T, core kubernetes.Interface, opts configmapstore.Options) *configmapstore.Store {
	t.Helper()
	s, err := configmapstore.New(core, namespace, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// O7, O8, X3: the store keeps the contract with no more rights than docs/rbac/configmapstore.yaml gives.
func TestConformance(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	role, err := os.ReadFile("../../docs/rbac/configmapstore.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const user = "system:serviceaccount:backup-operator:operator"
	if err := c.Bind(user, bytes.NewReader(role)); err != nil {
		t.Fatal(err)
	}
	core := client(t, c.ConfigFor(user))
	opts := operationstest.Options{
		Open:     func() (operations.Store, error) { return configmapstore.New(core, namespace, configmapstore.Options{}) },
		MaxBytes: 1 << 20,
	}
	for _, part := range operationstest.Cases() {
		t.Run(part.Name, func(t *testing.T) { part.Run(t, opts) })
	}
	for request := range c.RequestsBy(user) {
		if request != "get configmaps" && request != "create configmaps" && request != "patch configmaps" && request != "delete configmaps" {
			t.Errorf("the store asks %s, which its role does not say", request)
		}
	}
}

// X8: what stands in the cluster is a contract: the name, the annotations, the label, the key.
func TestFormat(t *testing.T) {
	t.Parallel()
	core := client(t, cluster(t).Config())
	s := newStore(t, core, configmapstore.Options{Labels: map[string]string{"app": "operator", "sheetanchor.io/store": "x"}})
	if _, err := s.Write(t.Context(), docName, []byte("one"), ""); err != nil {
		t.Fatal(err)
	}
	cm := get(t, core)
	if diff := cmp.Diff(map[string]string{"sheetanchor.io/document": docName, "sheetanchor.io/format": "1"}, cm.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"app": "operator", "sheetanchor.io/store": "sheetanchor"}, cm.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string][]byte{"document": []byte("one")}, cm.BinaryData); diff != "" {
		t.Errorf("content (-want +got):\n%s", diff)
	}
	_, version, err := s.Read(t.Context(), docName)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(t.Context(), docName, bytes.Repeat([]byte("one"), 1000), version); err != nil {
		t.Fatal(err)
	}
	cm = get(t, core)
	if zipped := cm.BinaryData["document.gz"]; len(cm.BinaryData) != 1 || len(zipped) == 0 || len(zipped) > 100 {
		t.Errorf("a document that gets smaller is kept as %v", cm.BinaryData)
	}
}

func get(t *testing.T, core kubernetes.Interface) *corev1.ConfigMap {
	t.Helper()
	cm, err := core.CoreV1().ConfigMaps(namespace).Get(t.Context(), mapName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return cm
}

// O7, X8: what others put on the ConfigMap is neither a conflict nor lost; a change of the document is one, and so is its
// removal.
func TestTouchedByOthers(t *testing.T) {
	t.Parallel()
	core := client(t, cluster(t).Config())
	maps := core.CoreV1().ConfigMaps(namespace)
	s := newStore(t, core, configmapstore.Options{})
	v1, err := s.Write(t.Context(), docName, []byte("one"), "")
	if err != nil {
		t.Fatal(err)
	}
	patch(t, core, `{"metadata":{"labels":{"owner":"x"},"annotations":{"a":"b"}},"data":{"note":"kept"}}`)
	v2, err := s.Write(t.Context(), docName, []byte("two"), v1)
	if err != nil {
		t.Fatalf("Write after a label was put on: %v", err)
	}
	if cm := get(t, core); cm.Labels["owner"] != "x" || cm.Annotations["a"] != "b" || cm.Data["note"] != "kept" {
		t.Errorf("what others put there is lost: %v", cm)
	}
	patch(t, core, `{"binaryData":{"document":"b3RoZXI="}}`)
	if _, err := s.Write(t.Context(), docName, []byte("three"), v2); !errors.Is(err, operations.ErrConflict) {
		t.Errorf("Write after the document was changed = %v, want ErrConflict", err)
	}
	data, v3, err := s.Read(t.Context(), docName)
	if err != nil || string(data) != "other" {
		t.Fatalf("Read = %q, %v", data, err)
	}
	if err := maps.Delete(t.Context(), mapName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(t.Context(), docName, []byte("four"), v3); !errors.Is(err, operations.ErrConflict) {
		t.Errorf("Write after the document was removed = %v, want ErrConflict", err)
	}
	if _, err := s.Write(t.Context(), docName, []byte("other"), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(t.Context(), docName, []byte("five"), v3); !errors.Is(err, operations.ErrConflict) {
		t.Errorf("Write over one that was made again with the same content = %v, want ErrConflict", err)
	}
	if _, err := s.Write(t.Context(), docName, []byte("six"), "made up"); !errors.Is(err, operations.ErrConflict) {
		t.Errorf("Write over a version of another store = %v, want ErrConflict", err)
	}
}

func patch(t *testing.T, core kubernetes.Interface, text string) {
	t.Helper()
	_, err := core.CoreV1().ConfigMaps(namespace).Patch(t.Context(), mapName, types.MergePatchType, []byte(text), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// O8: a document that is too large for the API is a typed error, and nothing is sent.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	s := newStore(t, client(t, c.Config()), configmapstore.Options{MaxBytes: 100})
	_, err := s.Write(t.Context(), docName, []byte("\x1f\x8b"+strings.Repeat("x", 99)), "")
	if !errors.Is(err, operations.ErrTooLarge) || !strings.Contains(err.Error(), mapName) || !strings.Contains(err.Error(), docName) {
		t.Errorf("Write over the limit = %v, want ErrTooLarge that names the document and the config map", err)
	}
	if n := len(c.Requests()); n > 0 {
		t.Errorf("%v requests were made", c.Requests())
	}
	if _, err := s.Write(t.Context(), docName, bytes.Repeat([]byte("x"), 10_000), ""); err != nil {
		t.Errorf("Write of a document that is small when compressed = %v", err)
	}
}

// O13: a ConfigMap that is no document is an error that says why, and is never overwritten.
func TestHostileConfigMap(t *testing.T) {
	t.Parallel()
	core := client(t, cluster(t).Config())
	s := newStore(t, core, configmapstore.Options{})
	good := `{"metadata":{"annotations":{"sheetanchor.io/document":"` + docName + `","sheetanchor.io/format":"1"}},"data":null,"binaryData":{"document":"b25l","document.gz":null}}`
	tests := map[string]struct {
		reason, patch, text string
		want                error
	}{
		"later format":  {"a later version wrote it", `{"metadata":{"annotations":{"sheetanchor.io/format":"2"}}}`, `format is "2"`, operations.ErrMalformed},
		"no format":     {"somebody else's", `{"metadata":{"annotations":{"sheetanchor.io/format":null}}}`, "format", operations.ErrMalformed},
		"another name":  {"two names, one hash", `{"metadata":{"annotations":{"sheetanchor.io/document":"x"}}}`, `document is "x"`, operations.ErrMalformed},
		"no content":    {"there is nothing to read", `{"binaryData":{"document":null}}`, "binaryData", operations.ErrMalformed},
		"two contents":  {"nobody knows which counts", `{"binaryData":{"document.gz":"b25l"}}`, "binaryData", operations.ErrMalformed},
		"not gzip":      {"it cannot be read", `{"binaryData":{"document":null,"document.gz":"b25l"}}`, "gzip", operations.ErrMalformed},
		"only the good": {"the tests begin with it", `{}`, "", nil},
	}
	v, err := s.Write(t.Context(), docName, []byte("one"), "")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range tests {
		patch(t, core, good)
		patch(t, core, tc.patch)
		before := get(t, core)
		_, _, err := s.Read(t.Context(), docName)
		if !errors.Is(err, tc.want) || err != nil && !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s: Read = %v, want %v with %q, because %s", name, err, tc.want, tc.text, tc.reason)
		}
		if tc.want == nil {
			continue
		}
		for _, old := range []string{"", v} {
			if _, err := s.Write(t.Context(), docName, []byte("two"), old); !errors.Is(err, operations.ErrConflict) {
				t.Errorf("%s: Write over it = %v, want ErrConflict", name, err)
			}
		}
		if diff := cmp.Diff(before, get(t, core)); diff != "" {
			t.Errorf("%s: it was changed (-before +after):\n%s", name, diff)
		}
	}
}

// O2: a write without answer says so; a refused one says what refused it.
func TestErrors(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		fault  backuptest.Fault
		want   error
		is     func(error) bool
	}{
		"lost answer":  {"it may be written", backuptest.Fault{Action: backuptest.FaultLostAnswer}, operations.ErrUnknownOutcome, nil},
		"server error": {"it may be written", backuptest.Fault{Code: 500}, operations.ErrUnknownOutcome, apierrors.IsInternalError},
		"forbidden":    {"it is not written", backuptest.Fault{Code: 403}, nil, apierrors.IsForbidden},
		"too large":    {"a proxy has a smaller limit", backuptest.Fault{Code: 413}, operations.ErrTooLarge, nil},
	}
	for name, tc := range tests {
		for _, verb := range []string{"create", "patch"} {
			t.Run(name+"/"+verb, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { checkError(t, verb, tc.fault, tc.want, tc.is, tc.reason) })
			})
		}
	}
}

func checkError(t *testing.T, verb string, fault backuptest.Fault, want error, is func(error) bool, reason string) {
	t.Helper()
	c := cluster(t)
	defer c.Close()
	s := newStore(t, client(t, c.Config()), configmapstore.Options{})
	old := ""
	if verb == "patch" {
		version, err := s.Write(t.Context(), docName, []byte("one"), "")
		if err != nil {
			t.Fatal(err)
		}
		old = version
	}
	fault.Verb, fault.Resource = verb, "configmaps"
	c.Fault(fault)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := s.Write(ctx, docName, []byte("two"), old)
	if err == nil || want != nil && !errors.Is(err, want) || want == nil && errors.Is(err, operations.ErrUnknownOutcome) || is != nil && !is(err) {
		t.Errorf("Write = %v, want %v: %s", err, want, reason)
	}
}

// O8: bad arguments are refused, all at once, each by name.
func TestNewRefuses(t *testing.T) {
	t.Parallel()
	_, err := configmapstore.New(nil, "Not_A_Namespace", configmapstore.Options{
		Prefix: "-x", Domain: "a_b", MaxBytes: 1<<20 + 1, Labels: map[string]string{"a b": "c", "d": "e f"},
	})
	if err == nil {
		t.Fatal("New gave no error")
	}
	if _, err := configmapstore.New((*kubernetes.Clientset)(nil), namespace, configmapstore.Options{}); err == nil || !strings.Contains(err.Error(), "client is nil") {
		t.Errorf("New with the client of a failed constructor = %v", err)
	}
	for _, part := range []string{"client is nil", `namespace "Not_A_Namespace"`, "option Prefix", "option Domain", "option MaxBytes", "Labels, a b=c", "Labels, d=e f"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("New = %v, want %q in it", err, part)
		}
	}
}

// O7: a namespace that does not exist is not a missing document when it is written, and a document's name must be one.
func TestRefuses(t *testing.T) {
	t.Parallel()
	core := client(t, backuptest.New(t).Config())
	s := newStore(t, core, configmapstore.Options{})
	if _, err := s.Write(t.Context(), docName, []byte("x"), ""); err == nil || errors.Is(err, operations.ErrConflict) {
		t.Errorf("Write without a namespace = %v, want an error that is no conflict", err)
	}
	if _, _, err := s.Read(t.Context(), "../x"); !errors.Is(err, operations.ErrMalformed) {
		t.Errorf("Read of a bad name = %v, want ErrMalformed", err)
	}
}

// X1: a Store that New did not make answers with an error that says so.
func TestZeroStore(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*configmapstore.Store{"zero": {}, "nil": nil} {
		_, _, read := s.Read(t.Context(), "x")
		_, write := s.Write(t.Context(), "x", nil, "")
		for i, err := range []error{read, write, s.Remove(t.Context(), "x", "1")} {
			if err == nil || !strings.Contains(err.Error(), "not made by New") {
				t.Errorf("%s store, call %d: %v", name, i, err)
			}
		}
	}
}
