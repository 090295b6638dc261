package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/examples/internal/program"
	"github.com/sheetanchor/sheetanchor/operations"
)

// What cannot be backed up is refused with one line that names the thing, before anything in the cluster is changed.
func TestRefusedWithoutAWrite(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason  string
		cluster backuptest.Options
		dump    string
		arrange func(ctx context.Context, w *world) error
		want    []string
	}{
		"no snapshot API": {
			reason:  "no snapshot could be taken",
			cluster: backuptest.Options{NoSnapshotCRDs: true},
			dump:    withoutSnapshotClass(t),
			want:    []string{"snapshot.storage.k8s.io"},
		},
		"no class": {
			reason: "the driver's snapshots need one",
			dump:   withoutSnapshotClass(t),
			want:   []string{"csi.example.dev", "VolumeSnapshotClass"},
		},
		"unknown namespace": {
			reason: "a typing error would pass for an empty backup",
			dump:   "# nothing\n",
			want:   []string{`namespace "shop"`},
		},
		"foreign ConfigMap": {
			reason: "the name of the backup object is taken",
			dump:   string(demo),
			arrange: func(ctx context.Context, w *world) error {
				object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "sheetanchor-demo"}}
				_, err := w.core().CoreV1().ConfigMaps("shop").Create(ctx, object, metav1.CreateOptions{})
				return err
			},
			want: []string{"ConfigMap shop/sheetanchor-demo"},
		},
		"store of a backup that is gone": {
			reason: "its records would be overwritten",
			dump:   string(demo),
			arrange: func(ctx context.Context, w *world) error {
				_, err := w.store.Write(ctx, newFiles("demo").phase(), []byte(`{"version":1,"uid":"other"}`), "")
				return err
			},
			want: []string{"-store", "another backup named demo"},
		},
		"store of another backup": {
			reason: "the records name another object",
			dump:   string(demo),
			arrange: func(ctx context.Context, w *world) error {
				object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
					Namespace: "shop", Name: "sheetanchor-demo", Labels: map[string]string{"app.kubernetes.io/managed-by": programName},
				}}
				if _, err := w.core().CoreV1().ConfigMaps("shop").Create(ctx, object, metav1.CreateOptions{}); err != nil {
					return err
				}
				_, err := w.store.Write(ctx, newFiles("demo").phase(), []byte(`{"version":1,"uid":"other"}`), "")
				return err
			},
			want: []string{"-store", "other"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := &world{t: t, cluster: backuptest.New(t, tc.cluster), store: operations.NewMemoryStore()}
				if _, err := w.cluster.Load(strings.NewReader(tc.dump)); err != nil {
					t.Fatal(err)
				}
				if tc.arrange != nil {
					if err := tc.arrange(t.Context(), w); err != nil {
						t.Fatal(err)
					}
				}
				w.cluster.ResetRequests()
				_, code, err := w.run(nil, testOptions(t))
				if err == nil || code != program.ExitOther {
					t.Fatalf("%s: exit %d, error %v, want 1 and an error", tc.reason, code, err)
				}
				for _, want := range tc.want {
					if line := program.OneLine(err.Error()); !strings.Contains(line, want) {
						t.Errorf("%s: %q does not name %q", tc.reason, line, want)
					}
				}
				for request := range w.cluster.Requests() {
					if !strings.HasPrefix(request, "get ") && !strings.HasPrefix(request, "list ") {
						t.Errorf("%s: it sent %q", tc.reason, request)
					}
				}
			})
		})
	}
}

// A dump with kinds that the embedded cluster does not know loads without them, and says so.
func TestDumpWithUnknownKinds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "dump.yaml")
		text := string(demo) + "---\napiVersion: example.dev/v1\nkind: Gadget\nmetadata: {namespace: shop, name: odd}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, stderr, code := runHere(t, "-f", file, "-plan", "-store", t.TempDir())
		if code != program.ExitCompleted || !strings.Contains(stderr, "skipped") || !strings.Contains(stderr, "Gadget") {
			t.Errorf("exit %d, stderr %q, want 0 and a line that names the Gadget", code, stderr)
		}
	})
}
