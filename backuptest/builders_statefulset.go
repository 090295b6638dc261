package backuptest

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// StatefulSet builds a StatefulSet with its pods, named NAME-0, NAME-1 and so on, and their claims, TEMPLATE-NAME-0 and so on,
// each bound to a volume. Only Namespace and Name are needed: a zero field takes the default that its comment names.
type StatefulSet struct {
	Namespace, Name string
	Replicas        int      // 1
	Templates       []string // the names of its claim templates: "data"
	// Pod and Claim are what the pods and the claims have in common, such as annotations or a storage class. Their names and
	// the pods' owner and claims are the set's.
	Pod   Pod
	Claim Claim
}

// Pods returns the builders of its pods.
func (s StatefulSet) Pods() []Pod {
	var pods []Pod
	for i := range max(s.Replicas, 1) {
		pod := s.Pod
		pod.Namespace, pod.Name = s.Namespace, fmt.Sprintf("%s-%d", s.Name, i)
		pod.Labels = withDefaults(pod.Labels, map[string]string{"app": s.Name})
		pod.Owner = ControllerOf("apps/v1", "StatefulSet", s.Namespace, s.Name)
		pod.Claims = nil
		for _, template := range s.templates() {
			pod.Claims = append(pod.Claims, template+"-"+pod.Name)
		}
		pods = append(pods, pod)
	}
	return pods
}

// Claims returns the builders of its claims, in the order of pods and templates.
func (s StatefulSet) Claims() []Claim {
	var claims []Claim
	for _, pod := range s.Pods() {
		for _, name := range pod.Claims {
			claim := s.Claim
			claim.Namespace, claim.Name = s.Namespace, name
			claim.Labels = withDefaults(claim.Labels, map[string]string{"app": s.Name})
			claims = append(claims, claim)
		}
	}
	return claims
}

// Object returns the StatefulSet alone.
func (s StatefulSet) Object() *appsv1.StatefulSet {
	replicas := int32(max(s.Replicas, 1)) //nolint:gosec // a test's number of pods
	labels := map[string]string{"app": s.Name}
	pod := s.Pods()[0].Object()
	pod.Spec.Volumes, pod.Spec.NodeName = nil, ""
	set := &appsv1.StatefulSet{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: s.Name, UID: UIDOf("StatefulSet", s.Namespace, s.Name), Labels: maps.Clone(labels),
		},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: s.Name, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: pod.Spec,
			},
		},
		Status: appsv1.StatefulSetStatus{Replicas: replicas, ReadyReplicas: replicas, AvailableReplicas: replicas},
	}
	for i, template := range s.templates() {
		for c := range set.Spec.Template.Spec.Containers {
			set.Spec.Template.Spec.Containers[c].VolumeMounts[i] = corev1.VolumeMount{Name: template, MountPath: "/" + template}
		}
		claim := s.Claim.filled()
		set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates, corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: template},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: slices.Clone(claim.AccessModes), StorageClassName: new(claim.Class),
				Resources: corev1.VolumeResourceRequirements{Requests: storageOf(claim.Size)},
			},
		})
	}
	return set
}

// Objects returns the StatefulSet, its pods, claims and volumes. What cannot be built, such as a negative number of Replicas, is
// an error where it is stored.
func (s StatefulSet) Objects() []runtime.Object {
	return built("StatefulSet", s.Namespace, s.Name, s.objects, s.wrong())
}

func (s StatefulSet) objects() []runtime.Object {
	objects := []runtime.Object{s.Object()}
	for _, pod := range s.Pods() {
		objects = append(objects, pod.Objects()...)
	}
	for _, claim := range s.Claims() {
		objects = append(objects, claim.Objects()...)
	}
	return objects
}

func (s StatefulSet) templates() []string {
	if len(s.Templates) == 0 {
		return []string{"data"}
	}
	return s.Templates
}
