package podexec_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/sheetanchor/sheetanchor/csisnapshot/podexec"
)

// The quiescer goes into csisnapshot.Options, beside a document for Intents. Making it sends no request.
func ExampleNew() {
	quiescer, err := podexec.New(&rest.Config{Host: "https://cluster.example.dev"}, podexec.Options{
		Annotations: podexec.Annotations{Prefix: "hook.backup.example.dev"}, // instead of Velero's
	})
	if err != nil {
		panic(err)
	}
	hooks, err := quiescer.Hooks(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0", Annotations: map[string]string{
			"pre.hook.backup.example.dev/command":  `["fsfreeze","--freeze","/data"]`,
			"post.hook.backup.example.dev/command": `["fsfreeze","--unfreeze","/data"]`,
		}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "db"}}},
	})
	fmt.Println(hooks.Pre[0].Command, hooks.Post[0].Command, err)
	// Output: [fsfreeze --freeze /data] [fsfreeze --unfreeze /data] <nil>
}
