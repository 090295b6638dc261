package backuptest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/operations"
)

// B3: with a process everything ends that it waits for or watches, though none of it has the process's context.
func TestKillEndsAll(t *testing.T) {
	t.Parallel()
	inBubble(t, backuptest.Options{}, func(c clients) {
		t := c.t
		own, free := context.WithCancel(context.WithoutCancel(t.Context()))
		defer free()
		_, p := backuptest.NewProcess(t.Context(), nil)
		maps := kubernetes.NewForConfigOrDie(p.Config(c.cluster.Config())).CoreV1().ConfigMaps("app")
		w, err := maps.Watch(own, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		c.cluster.Fault(backuptest.Fault{Verb: "get", Action: backuptest.FaultHang})
		c.cluster.Fault(backuptest.Fault{Verb: "create", Name: "held", Action: backuptest.FaultHangAnswer})
		store := backuptest.NewStore(operations.NewMemoryStore())
		store.Fault(backuptest.StoreFault{Action: backuptest.StoreHang})
		hooks := newHooks()
		hooks.Script(backuptest.HookCall{}, backuptest.HookScript{Hang: true})
		pod, freeze := csisnapshot.PodRef{Namespace: "app", Name: "db-0"}, csisnapshot.Hook{Name: "freeze"}

		var mu sync.Mutex
		ended := map[string]error{}
		var waits sync.WaitGroup
		for name, wait := range map[string]func() error{
			"get":    func() error { _, err := maps.Get(own, "a", metav1.GetOptions{}); return err },
			"create": func() error { _, err := maps.Create(own, configMap("held", nil), metav1.CreateOptions{}); return err },
			"read":   func() error { _, _, err := store.In(p).Read(own, "a"); return err },
			"write":  func() error { _, err := store.In(p).Write(own, "a", nil, ""); return err },
			"hook":   func() error { return hooks.In(p).Exec(own, pod, freeze) },
			"do": func() error {
				return p.Do(own, "wait", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			},
		} {
			waits.Go(func() {
				err := wait()
				mu.Lock()
				defer mu.Unlock()
				ended[name] = err
			})
		}
		synctest.Wait()
		if len(ended) != 0 {
			t.Fatalf("ended before the process: %v", ended)
		}
		p.Kill()
		waits.Wait()
		for name, err := range ended {
			if !errors.Is(err, backuptest.ErrCrashed) {
				t.Errorf("%s = %v, want that the process has crashed", name, err)
			}
		}
		created(t, c, "later")
		time.Sleep(time.Second)
		for e := range w.ResultChan() {
			if m, ok := e.Object.(metav1.Object); ok && m.GetName() == "later" {
				t.Error("the watch of a dead process told of what came later")
			}
		}
	})
}
