package csisnapshot_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// S4: the ready-made keys: every pod by itself, an application by its label, a virtual machine with both its pods while it
// moves and the pods of its plugged-in disks, and the whole namespace.
func TestGroupKeys(t *testing.T) {
	t.Parallel()
	labelled := func(name, key, value string, claims ...string) backuptest.Pod {
		p := hookedPod(name, claims...)
		p.Labels = map[string]string{key: value}
		return p
	}
	pods := []backuptest.Pod{
		labelled("launcher-a", "vm.kubevirt.io/name", "vm", "disk"), labelled("launcher-b", "vm.kubevirt.io/name", "vm", "other"),
		plainPod("plugged", "hot"), labelled("web", "app", "shop", "w"), labelled("db", "app", "shop", "d"), hookedPod("solo", "s"),
	}
	builders := claims("disk", "other", "hot", "w", "d", "s")
	for _, p := range pods {
		builders = append(builders, p)
	}
	in := csisnapshot.Inputs{
		Namespace: "app", Classes: []csisnapshot.Class{{Meta: csisnapshot.Meta{Name: "c"}, Driver: backuptest.DefaultDriver}},
		Hooks: (&scriptedQuiescer{}).Hooks,
	}
	for _, object := range backuptest.Objects(builders...) {
		switch o := object.(type) {
		case *corev1.Pod:
			if o.Name == "plugged" {
				o.OwnerReferences = []metav1.OwnerReference{{
					APIVersion: "v1", Kind: "Pod", Name: "launcher-a", UID: backuptest.UIDOf("Pod", "app", "launcher-a"), Controller: new(true),
				}}
			}
			in.Pods = append(in.Pods, *o)
		case *corev1.PersistentVolumeClaim:
			in.Claims = append(in.Claims, *o)
		case *corev1.PersistentVolume:
			in.Volumes = append(in.Volumes, *o)
		}
	}
	tests := map[string]struct {
		key  csisnapshot.BatchKey
		want [][]string
	}{
		"pod":         {want: [][]string{{"db"}, {"launcher-a", "plugged"}, {"launcher-b"}, {"solo"}, {"web"}}},
		"application": {key: csisnapshot.ByLabel("app"), want: [][]string{{"db", "web"}, {"launcher-a", "plugged"}, {"launcher-b"}, {"solo"}}},
		"VM":          {key: csisnapshot.ByVM(), want: [][]string{{"db"}, {"launcher-a", "launcher-b", "plugged"}, {"solo"}, {"web"}}},
		"none":        {key: csisnapshot.Undivided(), want: [][]string{{"db", "launcher-a", "launcher-b", "plugged", "solo", "web"}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := in
			in.Key = tc.key
			var got [][]string
			for _, b := range csisnapshot.Group(in).Batches {
				var pods []string
				for _, p := range b.Pods {
					pods = append(pods, p.Name)
					if p.Name == "launcher-a" {
						if diff := cmp.Diff([]string{"disk", "hot"}, p.Claims); diff != "" {
							t.Errorf("claims of the machine with a plugged-in disk (-want +got):\n%s", diff)
						}
					}
				}
				got = append(got, pods)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("batches (-want +got):\n%s", diff)
			}
		})
	}
}
