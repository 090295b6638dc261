package app

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sheetanchor/sheetanchor/test/e2e/stack"
)

// The commands of the hooks of a [Pod]. The stub kubelet writes them down and runs nothing.
const (
	PreHook  = "freeze"
	PostHook = "thaw"
)

// Spec says what an application has.
type Spec struct {
	// Pods run on the stub kubelet. Their claims are made too.
	Pods []Pod
	// Claims are claims of no pod, by name.
	Claims []Claim
}

// Claim is a claim of the stack's storage class.
type Claim struct {
	Name        string
	Annotations map[string]string
}

// Pod is a pod of one container.
type Pod struct {
	// Name is its name.
	Name string
	// Claims are the names of the claims that it mounts. Pods that name the same claim share it.
	Claims []string
	// Hooked gives it the annotations of Velero for [PreHook] and [PostHook].
	Hooked bool
}

// Named returns claims without annotations.
func Named(names ...string) []Claim {
	claims := make([]Claim, 0, len(names))
	for _, name := range names {
		claims = append(claims, Claim{Name: name})
	}
	return claims
}

// Numbered returns n names PREFIX-00, PREFIX-01….
func Numbered(prefix string, n int) []string {
	names := make([]string, 0, n)
	for i := range n {
		names = append(names, fmt.Sprintf("%s-%02d", prefix, i))
	}
	return names
}

// claims are all claims, each once.
func (s Spec) claims() []Claim {
	all, seen := []Claim{}, map[string]bool{}
	add := func(c Claim) {
		if !seen[c.Name] {
			all = append(all, c)
		}
		seen[c.Name] = true
	}
	for _, c := range s.Claims {
		add(c)
	}
	for _, p := range s.Pods {
		for _, c := range Named(p.Claims...) {
			add(c)
		}
	}
	return all
}

func (c Claim) object() *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: c.Name, Annotations: c.Annotations},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new(stack.StorageClass),
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

func (p Pod) object(node string) *corev1.Pod {
	container := corev1.Container{Name: "main", Image: "app.example/main:1"}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name},
		Spec:       corev1.PodSpec{NodeName: node, TerminationGracePeriodSeconds: new(int64(0))},
	}
	if p.Hooked {
		pod.Annotations = map[string]string{
			"pre.hook.backup.velero.io/command":  `["` + PreHook + `"]`,
			"post.hook.backup.velero.io/command": `["` + PostHook + `"]`,
		}
	}
	for _, claim := range p.Claims {
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: claim, MountPath: "/" + claim})
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
	pod.Spec.Containers = []corev1.Container{container}
	return pod
}
