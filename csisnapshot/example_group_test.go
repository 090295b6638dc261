package csisnapshot_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// Which pods are frozen together: each by itself, those of an application, those of a virtual machine, or all.
func ExampleByLabel() {
	const app, vm = "app.kubernetes.io/instance", "vm.kubevirt.io/name"
	var in csisnapshot.Inputs
	for _, labels := range []map[string]string{{app: "blog"}, {app: "blog"}, {vm: "win"}, {vm: "win"}} {
		name := fmt.Sprintf("pod-%d", len(in.Pods))
		claim := backuptest.Claim{Namespace: "shop", Name: name}
		pod := backuptest.Pod{Namespace: "shop", Name: name, Claims: []string{name}, Labels: labels}
		in.Pods = append(in.Pods, *pod.Object())
		in.Claims, in.Volumes = append(in.Claims, *claim.PVC()), append(in.Volumes, *claim.PV())
	}
	in.Classes = []csisnapshot.Class{{Meta: csisnapshot.Meta{Name: "csi"}, Driver: backuptest.DefaultDriver}}
	in.Hooks = func(*corev1.Pod) (csisnapshot.PodHooks, error) { // podexec.Annotations reads them from the pod
		return csisnapshot.PodHooks{Pre: []csisnapshot.Hook{{Name: "freeze"}}, Post: []csisnapshot.Hook{{Name: "thaw"}}}, nil
	}
	for _, key := range []struct {
		name string
		key  csisnapshot.BatchKey // Options.BatchKey
	}{
		{"nil", nil},
		{"ByLabel", csisnapshot.ByLabel(app)},
		{"ByVM", csisnapshot.ByVM()},
		{"Undivided", csisnapshot.Undivided()},
	} {
		in.Key = key.key
		plan := csisnapshot.Group(in)
		fmt.Print(key.name, ":")
		for _, batch := range plan.Batches {
			fmt.Print(" ", len(batch.Pods))
		}
		fmt.Println(" pods at a time")
	}
	// Output:
	// nil: 1 1 1 1 pods at a time
	// ByLabel: 2 1 1 pods at a time
	// ByVM: 1 1 2 pods at a time
	// Undivided: 4 pods at a time
}
