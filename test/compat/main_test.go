package compat_test

import (
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newCluster makes a cluster with the namespace app, for the bubble it is called in.
func newCluster(t *testing.T, opts backuptest.Options) *backuptest.Cluster {
	t.Helper()
	opts.Objects = append(opts.Objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "app"}})
	return backuptest.New(t, opts)
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: name}, Data: map[string]string{"key": "value"}}
}
