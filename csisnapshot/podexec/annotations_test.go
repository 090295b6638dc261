package podexec_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/csisnapshot/podexec"
)

func pod(annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: "db", Annotations: annotations},
		Spec: corev1.PodSpec{
			Containers:     []corev1.Container{{Name: "main"}, {Name: "proxy"}},
			InitContainers: []corev1.Container{{Name: "side"}},
		},
	}
}

func TestAnnotations(t *testing.T) {
	t.Parallel()
	const pre, post = "pre.hook.backup.velero.io/", "post.hook.backup.velero.io/"
	cases := map[string]struct {
		prefix      string
		annotations map[string]string
		want        csisnapshot.PodHooks
		errs        string
	}{
		"none":                  {annotations: map[string]string{"pre.hook.backup.velero.io/container": "main"}},
		"a JSON array":          {annotations: map[string]string{pre + "command": `["sh","-c","sync; echo \"x\""]`}, want: csisnapshot.PodHooks{Pre: []csisnapshot.Hook{{Container: "main", Command: []string{"sh", "-c", `sync; echo "x"`}}}}},
		"a plain string":        {annotations: map[string]string{post + "command": "/hooks/thaw now"}, want: csisnapshot.PodHooks{Post: []csisnapshot.Hook{{Container: "main", Command: []string{"/hooks/thaw now"}}}}},
		"an array behind space": {annotations: map[string]string{pre + "command": ` [ "a" ] `}, want: csisnapshot.PodHooks{Pre: []csisnapshot.Hook{{Container: "main", Command: []string{"a"}}}}},
		"everything": {
			annotations: map[string]string{
				pre + "command": "freeze", pre + "container": "proxy", pre + "on-error": "Continue", pre + "timeout": "1m30s",
				post + "command": "thaw", post + "container": "side", post + "on-error": "Fail", post + "timeout": "",
			},
			want: csisnapshot.PodHooks{
				Pre:  []csisnapshot.Hook{{Container: "proxy", Command: []string{"freeze"}, OnError: csisnapshot.OnErrorContinue, Timeout: 90 * time.Second}},
				Post: []csisnapshot.Hook{{Container: "side", Command: []string{"thaw"}}},
			},
		},
		"another prefix": {
			prefix: "hooks.example.dev", annotations: map[string]string{"pre.hooks.example.dev/command": "a", pre + "command": "b"},
			want: csisnapshot.PodHooks{Pre: []csisnapshot.Hook{{Container: "main", Command: []string{"a"}}}},
		},
		"an empty command":     {annotations: map[string]string{pre + "command": " "}, errs: `pod app/db: annotation pre.hook.backup.velero.io/command: " ": empty command`},
		"an empty array":       {annotations: map[string]string{pre + "command": "[]"}, errs: `pod app/db: annotation pre.hook.backup.velero.io/command: "[]": empty command`},
		"an array of an empty": {annotations: map[string]string{pre + "command": `[""]`}, errs: `pod app/db: annotation pre.hook.backup.velero.io/command: "[\"\"]": empty command`},
		"half an array":        {annotations: map[string]string{pre + "command": `["a"`}, errs: `pod app/db: annotation pre.hook.backup.velero.io/command: "[\"a\"": not a JSON array of strings: unexpected end of JSON input`},
		"numbers":              {annotations: map[string]string{pre + "command": `[1]`}, errs: `pod app/db: annotation pre.hook.backup.velero.io/command: "[1]": not a JSON array of strings: json: cannot unmarshal number into Go value of type string`},
		"every fault at once": {
			annotations: map[string]string{
				pre + "command": "a", pre + "container": "nobody", pre + "on-error": "fail",
				post + "command": "b", post + "timeout": "soon",
			},
			errs: `pod app/db: annotation pre.hook.backup.velero.io/container: "nobody": the pod has no such container
pod app/db: annotation pre.hook.backup.velero.io/on-error: "fail": want Fail or Continue
pod app/db: annotation post.hook.backup.velero.io/timeout: "soon": want a positive duration such as 30s`,
		},
		"a timeout of zero":     {annotations: map[string]string{pre + "command": "a", pre + "timeout": "0s"}, errs: `pod app/db: annotation pre.hook.backup.velero.io/timeout: "0s": want a positive duration such as 30s`},
		"a timeout before zero": {annotations: map[string]string{pre + "command": "a", pre + "timeout": "-1s"}, errs: `pod app/db: annotation pre.hook.backup.velero.io/timeout: "-1s": want a positive duration such as 30s`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := podexec.Annotations{Prefix: tc.prefix}.Hooks(pod(tc.annotations))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Hooks(...) (-want +got):\n%s", diff)
			}
			text := ""
			if err != nil {
				text = err.Error()
			}
			if text != tc.errs {
				t.Errorf("Hooks(...) error\n got %s\nwant %s", text, tc.errs)
			}
			if e, ok := errors.AsType[*podexec.AnnotationError](err); err != nil && (!ok || e.Pod != "db" || !errors.Is(err, podexec.ErrAnnotation)) {
				t.Errorf("error = %v, want an *AnnotationError that is ErrAnnotation", err)
			}
		})
	}
}

// Whatever an annotation holds, it is read or refused with an error that names it; it never panics.
func FuzzAnnotations(f *testing.F) {
	f.Add(`["sh","-c","x"]`, "main", "Fail", "30s")
	f.Add("plain", "", "Continue", "1h")
	f.Add("[", "x", "", "-")
	f.Fuzz(func(t *testing.T, command, container, onError, timeout string) {
		const prefix = "pre.hook.backup.velero.io/"
		hooks, err := podexec.Annotations{}.Hooks(pod(map[string]string{
			prefix + "command": command, prefix + "container": container, prefix + "on-error": onError, prefix + "timeout": timeout,
		}))
		if err != nil {
			if !errors.Is(err, podexec.ErrAnnotation) || !hooks.Empty() {
				t.Errorf("Hooks = %v, %v", hooks, err)
			}
			return
		}
		if len(hooks.Pre) != 1 || len(hooks.Pre[0].Command) == 0 || hooks.Pre[0].Command[0] == "" || hooks.Pre[0].Timeout < 0 {
			t.Errorf("Hooks = %v", hooks)
		}
	})
}

func ExampleAnnotations() {
	pod := pod(map[string]string{
		"pre.hook.backup.velero.io/command": `["fsfreeze","--freeze","/data"]`,
		"pre.hook.backup.velero.io/timeout": "20s",
	})
	hooks, err := podexec.Annotations{}.Hooks(pod)
	fmt.Println(hooks.Pre[0].Container, hooks.Pre[0].Command, hooks.Pre[0].Timeout, err)
	// Output: main [fsfreeze --freeze /data] 20s <nil>
}
