package backuptest_test

import (
	"context"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

// B1, B3: what runs beside a test waits before it asks again: in virtual time a loop without a wait is a hang.
func TestControllersDoNotSpin(t *testing.T) {
	t.Parallel()
	runs := map[string]func(clients) (func(context.Context) error, error){
		"kubelet": func(c clients) (func(context.Context) error, error) {
			k, err := backuptest.NewKubelet(c.core, backuptest.KubeletOptions{})
			return k.Run, err
		},
		"garbage collector": func(c clients) (func(context.Context) error, error) {
			g, err := backuptest.NewGarbageCollector(metadata.NewForConfigOrDie(c.cluster.Config()), c.core.Discovery())
			return g.Run, err
		},
		"provisioner": func(c clients) (func(context.Context) error, error) {
			client := dynamic.NewForConfigOrDie(c.cluster.Config())
			return backuptest.NewProvisioner(client, backuptest.NewDriver(backuptest.DriverOptions{}), backuptest.ProvisionerOptions{}).Run, nil
		},
	}
	faults := map[string]backuptest.Fault{
		"end":     {Verb: "watch", Action: backuptest.FaultEndWatch},
		"expire":  {Verb: "watch", Action: backuptest.FaultExpireWatch},
		"cut":     {Verb: "watch", Action: backuptest.FaultCutAnswer},
		"reset":   {Verb: "watch", Action: backuptest.FaultReset},
		"gone":    {Verb: "watch", Code: 410},
		"refused": {Action: backuptest.FaultRefuse},
	}
	for name, run := range runs {
		for trouble, fault := range faults {
			t.Run(name+"/"+trouble, func(t *testing.T) {
				t.Parallel()
				inBubble(t, backuptest.Options{}, func(c clients) {
					t := c.t
					loop, err := run(c)
					if err != nil {
						t.Fatal(err)
					}
					ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
					defer stop()
					const most = 2000 // a list and a watch of each kind each second
					fault.Observe = func(backuptest.Request) {
						if len(c.cluster.Log()) > most {
							stop()
						}
					}
					c.cluster.Fault(fault)
					_ = loop(ctx)
					if n := len(c.cluster.Log()); n > most {
						t.Errorf("%d requests in %v", n, ctx.Err())
					}
				})
			})
		}
	}
}

// B1: what a constructor did not make says so, instead of failing later.
func TestZeroControllers(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(context.Context) error{
		"kubelet":           (&backuptest.Kubelet{}).Run,
		"garbage collector": (&backuptest.GarbageCollector{}).Run,
		"provisioner":       (&backuptest.Provisioner{}).Run,
	} {
		if err := run(t.Context()); err == nil {
			t.Errorf("%s: Run = nil, want an error", name)
		}
	}
}
