package compat_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

var mapsGVR = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// factory is what the three informer factories have in common.
type factory interface {
	Start(stop <-chan struct{})
	Shutdown()
}

// B1, B3, all-1: client-go's informers, typed, dynamic and of metadata, sync at once in virtual time, with WatchList and where
// the server refuses it, see what changes, and outlive the end of watches, a compaction and lost connections.
func TestInformers(t *testing.T) {
	t.Parallel()
	kinds := map[string]func(*backuptest.Cluster) (factory, cache.SharedIndexInformer){
		"typed": func(c *backuptest.Cluster) (factory, cache.SharedIndexInformer) {
			f := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(c.Config()), 0)
			return f, f.Core().V1().ConfigMaps().Informer()
		},
		"dynamic": func(c *backuptest.Cluster) (factory, cache.SharedIndexInformer) {
			f := dynamicinformer.NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(c.Config()), 0)
			return f, f.ForResource(mapsGVR).Informer()
		},
		"metadata": func(c *backuptest.Cluster) (factory, cache.SharedIndexInformer) {
			f := metadatainformer.NewSharedInformerFactory(metadata.NewForConfigOrDie(c.Config()), 0)
			return f, f.ForResource(mapsGVR).Informer()
		},
	}
	for name, start := range kinds {
		for _, refuse := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, WatchList refused %v", name, refuse), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					cluster := newCluster(t, backuptest.Options{NoWatchList: refuse, BookmarkEvery: time.Minute})
					ctx, stop := context.WithCancel(t.Context())
					core := kubernetes.NewForConfigOrDie(cluster.Config()).CoreV1().ConfigMaps("app")
					if err := cluster.Add(configMap("before")); err != nil {
						t.Fatal(err)
					}
					cluster.ResetRequests()
					f, informer := start(cluster)
					begin := time.Now()
					f.Start(ctx.Done())
					defer f.Shutdown()
					defer stop()
					if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
						t.Fatal("not synced")
					}
					if took := time.Since(begin); took > time.Second {
						t.Errorf("synced after %v", took)
					}
					if lists := cluster.Requests()["list configmaps"]; (lists > 0) != refuse {
						t.Errorf("%d lists, with WatchList refused %v", lists, refuse)
					}
					for i, trouble := range []func(){
						func() {}, func() { cluster.EndWatches("configmaps") }, func() { cluster.Compact(); cluster.EndWatches("") },
						func() {
							cluster.Fault(backuptest.Fault{Verb: "watch", Times: 3, Action: backuptest.FaultRefuse})
							cluster.EndWatches("")
						},
					} {
						trouble()
						name := fmt.Sprintf("m-%d", i)
						if _, err := core.Create(ctx, configMap(name), metav1.CreateOptions{}); err != nil {
							t.Fatal(err)
						}
						if i > 0 {
							if err := core.Delete(ctx, fmt.Sprintf("m-%d", i-1), metav1.DeleteOptions{}); err != nil {
								t.Fatal(err)
							}
						}
						time.Sleep(2 * time.Minute)
						synctest.Wait()
						keys := informer.GetStore().ListKeys()
						_, there, err := informer.GetStore().GetByKey("app/" + name)
						if err != nil || !there || len(keys) != 2 {
							t.Errorf("trouble %d: the store has %v, %v, want app/before and app/%s", i, keys, err, name)
						}
					}
				})
			})
		}
	}
}

// B1, B3: client-go's leader election works on the server's leases: one leads at a time, and the next takes over when the
// first falls silent.
func TestLeaderElection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster := newCluster(t, backuptest.Options{})
		leads := make(chan string, 4)
		elect := func(ctx context.Context, identity string) chan struct{} {
			core := kubernetes.NewForConfigOrDie(cluster.ConfigFor(identity, allow("coordination.k8s.io", "leases", "get", "create", "update")))
			elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
				Lock: &resourcelock.LeaseLock{
					LeaseMeta: metav1.ObjectMeta{Namespace: "app", Name: "leader"}, Client: core.CoordinationV1(),
					LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
				},
				LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
				Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { leads <- identity }, OnStoppedLeading: func() {}},
			})
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() { defer close(done); elector.Run(ctx) }()
			return done
		}
		ctx, stop := context.WithCancel(t.Context())
		first, end := context.WithCancel(ctx)
		a := elect(first, "a")
		if got := <-leads; got != "a" {
			t.Fatalf("%s leads", got)
		}
		b := elect(ctx, "b")
		time.Sleep(time.Hour)
		select {
		case got := <-leads:
			t.Errorf("%s leads beside a", got)
		default:
		}
		end()
		<-a
		silent := time.Now()
		if got := <-leads; got != "b" {
			t.Errorf("%s leads, want b", got)
		}
		if took := time.Since(silent); took < 10*time.Second || took > 20*time.Second {
			t.Errorf("b took over after %v, want about the lease's 15s", took)
		}
		stop()
		<-b
	})
}
