package backuptest_test

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

// B1, B3: a client's own time limit ends a request that hangs, and its rate limit holds, in virtual time.
func TestCallersConfigIsRespected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster := backuptest.New(t)
		config := cluster.Config()
		config.Timeout = 20 * time.Second
		core := kubernetes.NewForConfigOrDie(config)
		remove := cluster.Fault(backuptest.Fault{Action: backuptest.FaultHang})
		start := time.Now()
		_, err := core.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if got := time.Since(start); !utilnet.IsTimeout(err) || got != 20*time.Second {
			t.Errorf("list = %v after %v, want a timeout after 20s", err, got)
		}
		remove()
		config = cluster.Config()
		config.QPS, config.Burst = 2, 1
		core = kubernetes.NewForConfigOrDie(config)
		start = time.Now()
		for range 5 {
			if _, err := core.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if got := time.Since(start); got != 2*time.Second {
			t.Errorf("5 requests at 2 a second took %v, want 2s", got)
		}
	})
}
