package csisnapshot_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// shape prints a plan's batches compactly: "pods*:volumes", a star for hooks.
func shape(p *csisnapshot.Plan) []string {
	var out []string
	for _, b := range p.Batches {
		var pods, volumes []string
		for _, pod := range b.Pods {
			name := pod.Name
			if pod.Hooked {
				name += "*"
			}
			pods = append(pods, name)
		}
		for _, v := range b.Volumes {
			volumes = append(volumes, v.Claim)
		}
		out = append(out, strings.Join(pods, "+")+":"+strings.Join(volumes, "+"))
	}
	return out
}

// world collects the inputs of a plan.
type world struct{ in csisnapshot.Inputs }

func newWorld() *world {
	w := &world{in: csisnapshot.Inputs{
		Namespace: "app",
		Classes:   []csisnapshot.Class{{Meta: csisnapshot.Meta{Name: "csi"}, Driver: "csi.example.dev"}},
	}}
	w.in.Hooks = func(pod *corev1.Pod) (csisnapshot.PodHooks, error) {
		switch pod.Annotations["hooks"] {
		case "":
			return csisnapshot.PodHooks{}, nil
		case "bad":
			return csisnapshot.PodHooks{}, errors.New("annotation hooks cannot be read")
		case "panic":
			panic("no hooks today")
		default:
			h := csisnapshot.Hook{Container: pod.Annotations["container"], Command: []string{"freeze"}}
			return csisnapshot.PodHooks{Pre: []csisnapshot.Hook{h}, Post: []csisnapshot.Hook{h}}, nil
		}
	}
	return w
}

// claim adds bound claims.
func (w *world) claim(names ...string) *world {
	for _, name := range names {
		uid := types.UID("uid-" + name)
		w.in.Claims = append(w.in.Claims, corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: name, UID: uid},
			Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv-" + name},
			Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
		})
		w.in.Volumes = append(w.in.Volumes, corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pv-" + name, Labels: map[string]string{"zone": "a"}},
			Spec: corev1.PersistentVolumeSpec{
				ClaimRef:                      &corev1.ObjectReference{Namespace: "app", Name: name, UID: uid},
				PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
				PersistentVolumeSource: corev1.PersistentVolumeSource{
					CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.example.dev", VolumeHandle: "vol-" + name},
				},
			},
		})
	}
	return w
}

// pod adds a running pod that mounts the claims; edits change it.
func (w *world) pod(name, hooks string, claims []string, edits ...func(*corev1.Pod)) *world {
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "app", Name: name, UID: types.UID("uid-" + name), Annotations: map[string]string{"hooks": hooks},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning,
			ContainerStatuses: []corev1.ContainerStatus{
				{Name: "main", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
			},
		},
	}
	for _, c := range claims {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: c, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c},
		}})
	}
	for _, edit := range edits {
		edit(&pod)
	}
	w.in.Pods = append(w.in.Pods, pod)
	return w
}

func phase(p corev1.PodPhase) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Status.Phase = p }
}

func TestGroup(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason  string
		world   *world
		want    []string
		skipped []string
		faults  []string
	}{
		"hooked pods first, one unhooked batch last": {
			reason: "S4: volumes of pods without hooks and of no pod form one batch",
			world: newWorld().claim("a", "b", "c", "orphan").
				pod("web", "", []string{"a"}).pod("db", "yes", []string{"b"}).pod("api", "", []string{"c"}),
			want: []string{"db*:b", "api+web:a+c+orphan"},
		},
		"pods that share a volume share a batch": {
			reason: "S4: shared volumes join pods, transitively, hooked or not",
			world: newWorld().claim("a", "ab", "bc", "c").
				pod("pa", "yes", []string{"a", "ab"}).pod("pb", "", []string{"ab", "bc"}).pod("pc", "yes", []string{"bc", "c"}),
			want: []string{"pa*+pb+pc*:a+ab+bc+c"},
		},
		"succeeded and failed pods do not group": {
			reason: "S5: a finished pod uses no volume any more",
			world: newWorld().claim("a", "b").
				pod("one", "yes", []string{"a"}).pod("two", "yes", []string{"b"}).
				pod("done", "", []string{"a", "b"}, phase(corev1.PodSucceeded)).
				pod("bad", "", []string{"a", "b"}, phase(corev1.PodFailed)),
			want: []string{"one*:a", "two*:b"},
		},
		"a pending pod counts as unhooked": {
			reason: "S5: its hooks cannot run and its volumes are cut all the same",
			world:  newWorld().claim("a").pod("one", "yes", []string{"a"}, phase(corev1.PodPending)),
			want:   []string{"one:a"},
		},
		"a pod whose hook's container waits counts as unhooked": {
			reason: "S5: hooks run only where their container runs",
			world: newWorld().claim("a").pod("one", "yes", []string{"a"}, func(p *corev1.Pod) {
				p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}
			}),
			want: []string{"one:a"},
		},
		"a pod without planned volumes is not frozen": {
			reason: "a freeze without a snapshot helps nobody",
			world:  newWorld().claim("a").pod("one", "yes", nil).pod("two", "yes", []string{"missing"}),
			want:   []string{":a"},
		},
		"a generic ephemeral volume is the pod's claim": {
			reason: "its claim is named for pod and volume",
			world: newWorld().claim("one-scratch").pod("one", "yes", nil, func(p *corev1.Pod) {
				p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{
					Ephemeral: &corev1.EphemeralVolumeSource{},
				}}}
			}),
			want: []string{"one*:one-scratch"},
		},
		"hooks that cannot be read are faults of the pod's volumes": {
			reason: "they must not be cut unfrozen; other volumes are planned",
			world: newWorld().claim("a", "shared", "b").
				pod("bad", "bad", []string{"a", "shared"}).pod("good", "yes", []string{"shared", "b"}).
				pod("none", "panic", []string{"a"}),
			want: []string{"good*:b"},
			faults: []string{
				"claim app/a: hooks of pod app/bad: annotation hooks cannot be read",
				"claim app/shared: hooks of pod app/bad: annotation hooks cannot be read",
			},
		},
		"a panic in the hooks function is a fault": {
			reason: "X1: no panic crosses the API",
			world:  newWorld().claim("a").pod("none", "panic", []string{"a"}),
			faults: []string{"claim app/a: hooks of pod app/none: panic: no hooks today"},
		},
		"a key joins pods": {
			reason: "S4: the batch key is pluggable",
			world: func() *world {
				label := func(p *corev1.Pod) { p.Labels = map[string]string{"app": "x"} }
				w := newWorld().claim("a", "b", "c").pod("pa", "yes", []string{"a"}, label).
					pod("pb", "yes", []string{"b"}, label).pod("pc", "yes", []string{"c"})
				w.in.Key = csisnapshot.ByLabel("app")
				return w
			}(),
			want: []string{"pa*+pb*:a+b", "pc*:c"},
		},
		"a panic in the key is a fault": {
			reason: "X1: no panic crosses the API",
			world: func() *world {
				w := newWorld().claim("a").pod("pa", "yes", []string{"a"})
				w.in.Key = func(*corev1.Pod) string { panic("key") }
				return w
			}(),
			faults: []string{"claim app/a: batch key of pod app/pa: panic: key"},
		},
		"nothing gives nothing": {reason: "an empty namespace is no error", world: newWorld()},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := csisnapshot.Group(tc.world.in)
			if diff := cmp.Diff(tc.want, shape(plan)); diff != "" {
				t.Errorf("Group(...) batches (-want +got):\n%s%s", diff, tc.reason)
			}
			var faults []string
			for _, f := range plan.Faults {
				faults = append(faults, f.Error())
			}
			if diff := cmp.Diff(tc.faults, faults); diff != "" {
				t.Errorf("Group(...) faults (-want +got):\n%s%s", diff, tc.reason)
			}
			if got := plan.Err() != nil; got != (len(tc.faults) > 0) {
				t.Errorf("Err() = %v with %d faults", plan.Err(), len(tc.faults))
			}
		})
	}
}

// S12: unbound, lost and non-CSI claims are typed skips (snap-33).
func TestGroupSkips(t *testing.T) {
	t.Parallel()
	w := newWorld().claim("ok", "lost", "pending", "nfs", "unknown", "gone", "stolen", "blank")
	edit := map[string]func(*corev1.PersistentVolumeClaim, *corev1.PersistentVolume){
		"lost": func(c *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) { c.Status.Phase = corev1.ClaimLost },
		"pending": func(c *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) {
			c.Status.Phase = corev1.ClaimPending
		},
		"blank": func(c *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) { c.Status.Phase = "" },
		"nfs": func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{}}
		},
		"unknown": func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{}
		},
		"gone":   func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) { v.Name = "other" },
		"stolen": func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "another" },
	}
	for i := range w.in.Claims {
		if f := edit[w.in.Claims[i].Name]; f != nil {
			f(&w.in.Claims[i], &w.in.Volumes[i])
		}
	}
	plan := csisnapshot.Group(w.in)
	want := []csisnapshot.Skip{
		{Namespace: "app", Claim: "blank", Code: csisnapshot.SkipNotBound, Reason: "not bound (no status)", PV: "pv-blank"},
		{Namespace: "app", Claim: "gone", Code: csisnapshot.SkipMissingVolume, Reason: "volume pv-gone does not exist", PV: "pv-gone"},
		{Namespace: "app", Claim: "lost", Code: csisnapshot.SkipLost, Reason: "volume lost", PV: "pv-lost"},
		{Namespace: "app", Claim: "nfs", Code: csisnapshot.SkipNotCSI, Reason: "not CSI (nfs)", PV: "pv-nfs"},
		{Namespace: "app", Claim: "pending", Code: csisnapshot.SkipNotBound, Reason: "not bound (Pending)", PV: "pv-pending"},
		{Namespace: "app", Claim: "stolen", Code: csisnapshot.SkipForeignVolume, Reason: "volume pv-stolen belongs to another claim", PV: "pv-stolen"},
		{Namespace: "app", Claim: "unknown", Code: csisnapshot.SkipNotCSI, Reason: "not CSI (unknown source)", PV: "pv-unknown"},
	}
	if diff := cmp.Diff(want, plan.Skipped); diff != "" {
		t.Errorf("Skipped (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{":ok"}, shape(plan)); diff != "" {
		t.Errorf("batches (-want +got):\n%s", diff)
	}
}

// A plan does not depend on the order of the lists, and every claim is in it exactly once.
func TestGroupIsDeterministic(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		w := newWorld()
		for i := range 12 {
			w.claim(fmt.Sprintf("c%02d", i))
		}
		kinds := []string{"", "yes", "bad"}
		for i := range 8 {
			var claims []string
			for range rnd.IntN(4) {
				claims = append(claims, fmt.Sprintf("c%02d", rnd.IntN(12)))
			}
			w.pod(fmt.Sprintf("p%d", i), kinds[rnd.IntN(3)], claims)
		}
		want := csisnapshot.Group(w.in)
		for range 5 {
			shuffle(rnd, w.in.Pods)
			shuffle(rnd, w.in.Claims)
			shuffle(rnd, w.in.Volumes)
			got := csisnapshot.Group(w.in)
			if got.String() != want.String() {
				t.Fatalf("seed %d: Group depends on the order of its inputs:\n%s\nand\n%s", seed, got, want)
			}
		}
		seen := map[string]int{}
		for _, b := range want.Batches {
			for _, v := range b.Volumes {
				seen[v.Claim]++
			}
		}
		for _, f := range want.Faults {
			seen[f.Claim]++
		}
		if len(seen) != 12 || slices.Max(values(seen)) != 1 {
			t.Fatalf("seed %d: claims planned %v, want each of 12 once", seed, seen)
		}
	}
}

func shuffle[T any](rnd *rand.Rand, s []T) {
	rnd.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
}

func values(m map[string]int) []int {
	var out []int
	for _, v := range m {
		out = append(out, v)
	}
	return out
}

// S4: what controls a pod is its controller's UID, and all ReplicaSets of a Deployment are that Deployment.
func TestGroupControllers(t *testing.T) {
	t.Parallel()
	owned := func(kind, name, uid, hash string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, UID: types.UID(uid), Controller: new(true)}}
			p.Labels = map[string]string{"pod-template-hash": hash}
		}
	}
	w := newWorld().claim("a", "b", "c", "d").
		pod("new", "yes", []string{"a"}, owned("ReplicaSet", "web-7d9", "u1", "7d9")).
		pod("old", "yes", []string{"b"}, owned("ReplicaSet", "web-5c4", "u2", "5c4")).
		pod("set", "yes", []string{"c"}, owned("StatefulSet", "db", "u3", "")).
		pod("free", "yes", []string{"d"})
	got := map[string]string{}
	for _, b := range csisnapshot.Group(w.in).Batches {
		for _, p := range b.Pods {
			got[p.Name] = p.Controller
		}
	}
	want := map[string]string{"new": "Deployment/app/web", "old": "Deployment/app/web", "set": "u3", "free": ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("controllers (-want +got):\n%s", diff)
	}
}
