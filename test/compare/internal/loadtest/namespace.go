package loadtest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/operations"
	"github.com/sheetanchor/sheetanchor/test/compare/internal/velerotest"
)

const app = "app"

// resync is that of the real controllers. With backuptest's, which is shorter, they would read all objects thousands of times in the
// hours or days that Velero takes.
const resync = 15 * time.Minute

// namespace is pods with volumes, and what the storage does with their snapshots.
type namespace struct {
	Pods    int
	Volumes int // of each pod; without pods: in all
	// Hooked says which pods have hooks. Nil: none.
	Hooked func(pod int) bool
	// Script is that of one volume. Nil: cut at once.
	Script     func(pod, volume int) backuptest.Script
	Controller backuptest.ControllerOptions
	Latency    time.Duration

	objects []runtime.Object
	blocks  []velerotest.Block
}

func (n *namespace) build() {
	n.Controller.Scripts, n.Controller.Resync = map[string]backuptest.Script{}, resync
	builders := []backuptest.Builder{backuptest.StorageClass{}, backuptest.SnapshotClass{Default: true}}
	for pod := range max(n.Pods, 1) {
		block := velerotest.Block{Pod: fmt.Sprintf("pod-%03d", pod), Hooked: n.Hooked != nil && n.Hooked(pod)}
		var names []string
		for volume := range n.Volumes {
			claim := backuptest.Claim{Namespace: app, Name: fmt.Sprintf("data-%03d-%05d", pod, volume)}
			if n.Script != nil {
				n.Controller.Scripts[claim.Name] = n.Script(pod, volume)
			}
			builders = append(builders, claim)
			names = append(names, claim.Name)
			block.Claims = append(block.Claims, claim.PVC())
		}
		if n.Pods == 0 { // each claim by itself
			for _, claim := range block.Claims {
				n.blocks = append(n.blocks, velerotest.Block{Claims: []*corev1.PersistentVolumeClaim{claim}})
			}
			break
		}
		builders = append(builders, backuptest.Pod{Namespace: app, Name: block.Pod, Claims: names})
		n.blocks = append(n.blocks, block)
	}
	n.objects = backuptest.Objects(builders...)
}

// cluster makes a cluster of the namespace, whose snapshot-controller runs until the returned function is called.
func (n *namespace) cluster(t *testing.T) (*backuptest.Cluster, func()) {
	t.Helper()
	if n.objects == nil {
		n.build()
	}
	c, err := backuptest.Start(backuptest.Options{Objects: n.objects, Latency: n.Latency, Resources: velerotest.Kinds})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	controller := backuptest.NewSnapshotController(dynamic.NewForConfigOrDie(c.Config()), backuptest.NewDriver(backuptest.DriverOptions{}), n.Controller)
	go func() { defer close(done); _ = controller.Run(ctx) }()
	return c, func() {
		stop()
		<-done
		c.Close()
	}
}

// The users that the two sides are, so that their requests are told from the controllers'.
const (
	userVelero = "velero"
	userAnchor = "sheetanchor"
)

// config is the configuration of a user who may do everything.
func config(c *backuptest.Cluster, user string) *rest.Config {
	return c.ConfigFor(user, rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
}

// reads counts the user's requests that read objects; discovery is not among them. Watches count as one.
func reads(c *backuptest.Cluster, user string) int {
	total := 0
	for what, n := range c.RequestsBy(user) {
		verb, resource, _ := strings.Cut(what, " ")
		if (verb == "get" || verb == "list" || verb == "watch") && !strings.HasPrefix(resource, "/") {
			total += n
		}
	}
	return total
}

var anchorOwner = csisnapshot.Owner{UID: "7d0c3a51-4f7e-4a52-9f0b-1c2d3e4f5a6b", Namespace: app, Name: "nightly"}

// memoryDocument is a new document for freeze intents.
func memoryDocument() csisnapshot.Document {
	return operations.NewSlot(operations.NewMemoryStore(), "intents")
}

// hooks are those of the hooked pods; they take no time, as with Velero here.
func (n *namespace) hooks() csisnapshot.Quiescer {
	hooked := map[string]bool{}
	for _, b := range n.blocks {
		hooked[b.Pod] = b.Hooked
	}
	hook := []csisnapshot.Hook{{Command: []string{"sync"}}}
	return backuptest.NewHooks(
		func(pod *corev1.Pod) (csisnapshot.PodHooks, error) {
			if !hooked[pod.Name] {
				return csisnapshot.PodHooks{}, nil
			}
			return csisnapshot.PodHooks{Pre: hook, Post: hook}, nil
		},
		func(pod csisnapshot.PodRef, _ csisnapshot.Hook) backuptest.HookCall {
			return backuptest.HookCall{Pod: pod.String()}
		},
	)
}

// anchor plans and cuts the namespace.
func (n *namespace) anchor(t *testing.T, c *backuptest.Cluster, opts csisnapshot.Options) (*csisnapshot.Snapshotter, *csisnapshot.Report) {
	t.Helper()
	as := config(c, userAnchor)
	if n.Pods > 0 {
		opts.Quiescer, opts.Intents = n.hooks(), memoryDocument()
	}
	s, err := csisnapshot.New(kubernetes.NewForConfigOrDie(as), csisnapshot.NewDynamic(dynamic.NewForConfigOrDie(as)), opts)
	must(t, err)
	plan, err := s.Plan(t.Context(), app)
	must(t, err)
	must(t, plan.Err())
	report, err := s.Cut(t.Context(), anchorOwner, plan)
	must(t, err)
	return s, report
}

// velero backs the namespace up with that many workers.
func (n *namespace) velero(t *testing.T, c *backuptest.Cluster, workers int) *velerotest.Run {
	t.Helper()
	client, err := velerotest.NewClient(config(c, userVelero))
	must(t, err)
	run, err := velerotest.Backup(t.Context(), client, velerotest.NewBackup("nightly"), workers, n.blocks)
	must(t, err)
	return run
}
