package driver_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/test/e2e/driver"
	"k8s.io/apimachinery/pkg/util/wait"
)

// A driver runs until its context ends; a client sets what it does to the snapshots of a claim.
func Example() {
	dir, err := os.MkdirTemp("", "driver")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	opts := driver.Options{
		Name: "csi.test.example", Endpoint: "unix://" + dir + "/csi", Control: "unix://" + dir + "/control", State: dir + "/state",
	}
	go func() { ended <- driver.Run(ctx, opts) }()

	client, err := driver.NewClient(opts.Control)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	err = wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		return client.Ready(ctx) == nil, nil
	})
	fmt.Println("ready:", err)
	err = client.SetScript(ctx, "app/data-*", driver.Script{Script: backuptest.Script{CutAfter: 2 * time.Second}})
	fmt.Println("set:", err)
	rules, err := client.Rules(ctx)
	fmt.Println(rules[0].Pattern, rules[0].Script.CutAfter, err)
	cancel()
	fmt.Println("ended:", <-ended)
	// Output:
	// ready: <nil>
	// set: <nil>
	// app/data-* 2s <nil>
	// ended: <nil>
}
