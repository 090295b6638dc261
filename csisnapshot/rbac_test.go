package csisnapshot_test

import (
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/internal/apirequest"
)

// roleRequests are the requests that the roles of a file allow, as "VERB RESOURCE".
func roleRequests(t *testing.T, file string) []string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	allowed := map[string]bool{}
	decoder := yaml.NewYAMLOrJSONDecoder(f, 4096)
	for {
		var role rbacv1.ClusterRole
		if err := decoder.Decode(&role); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					allowed[verb+" "+resource] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(allowed))
}

func TestRoleIsWhatTheRunUses(t *testing.T) {
	t.Parallel()
	// X3: docs/rbac/csisnapshot.yaml allows every request of a whole life of a backup, and nothing that no request needs.
	synctest.Test(t, func(t *testing.T) {
		slow := map[string]backuptest.Script{"a": {ReadyAfter: time.Minute}, "b": {ReadyAfter: time.Minute}}
		l := newCutLab(t, backuptest.ControllerOptions{Scripts: slow}, append(claims("a", "b"), hookedPod("p", "a"))...)
		counter := &apirequest.Counter{}
		config := l.cluster.Config()
		config.Wrap(counter.Wrap)
		core, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		snaps := csisnapshot.NewDynamic(client)
		s, err := csisnapshot.New(core, snaps, csisnapshot.Options{Quiescer: l.quiescer, Intents: l.intents})
		if err != nil {
			t.Fatal(err)
		}
		life(t, s, core)
		used := slices.DeleteFunc(slices.Sorted(maps.Keys(counter.Requests())), func(r string) bool { return strings.HasSuffix(r, " ") })
		if allowed := roleRequests(t, "../docs/rbac/csisnapshot.yaml"); !slices.Equal(used, allowed) {
			t.Errorf("requests\n%s\nthe role allows\n%s", strings.Join(used, "\n"), strings.Join(allowed, "\n"))
		}
	})
}

// life is a backup from its plan to its end, with a restore.
func life(t *testing.T, s *csisnapshot.Snapshotter, core kubernetes.Interface) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Plan(ctx, "nowhere"); !errors.Is(err, csisnapshot.ErrNamespaceNotFound) {
		t.Fatal(err)
	}
	plan, err := s.Plan(ctx, "app")
	must(err)
	report, err := s.Cut(ctx, cutOwner, plan)
	must(err)
	var refs []csisnapshot.Ref
	for _, v := range report.Volumes {
		refs = append(refs, csisnapshot.Ref{Namespace: "app", Name: v.Snapshot})
	}
	id := csisnapshot.OperationID(refs[0], time.Now())
	must(s.Action().Cancel(ctx, id))
	_, err = s.Wait(ctx, cutOwner, csisnapshot.StageReady, refs...)
	must(err)
	_, err = s.Action().ProgressMany(ctx, []string{id})
	must(err)
	_, err = s.Explain(ctx, refs[0], "")
	must(err)
	made, err := s.Clone(ctx, restorer, refs[0], "app")
	must(err)
	_, err = s.Destroy(ctx, restorer, made.Ref)
	must(err)
	left, err := s.Leftovers(ctx, cutOwner.UID)
	must(err)
	for _, l := range left {
		if l.Handle == "" {
			continue
		}
		record := csisnapshot.VolumeRecord{Driver: l.Driver, Handle: l.Handle}
		_, err = s.Remove(ctx, cutOwner, csisnapshot.RemoveOptions{
			Policy: csisnapshot.DeletionPolicyRetain, Before: csisnapshot.AfterVolumes(core, map[csisnapshot.Ref][]string{l.Ref: {"none"}}),
		}, l.Ref)
		must(err)
		_, err = s.Expire(ctx, cutOwner, csisnapshot.RemoveOptions{}, record)
		must(err)
	}
	_, err = s.Sweep(ctx, cutOwner.UID, destroyAll)
	must(err)
}

func TestExecRole(t *testing.T) {
	t.Parallel()
	// X3: a command needs get on pods/exec over a websocket, and create where that is not served.
	want := []string{"create pods/exec", "get pods/exec"}
	if got := roleRequests(t, "../docs/rbac/podexec.yaml"); !slices.Equal(got, want) {
		t.Errorf("the role allows %q, want %q", got, want)
	}
}
