package stack_test

import (
	"context"
	"fmt"
	"os"

	"github.com/sheetanchor/sheetanchor/test/e2e/stack"
)

// A test that needs the snapshot controller to be fast, and its sidecar away. It needs a running stack.
func ExampleStack_Restart() {
	ctx := context.Background()
	s, err := stack.Attach(os.Getenv(stack.EnvDir))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := s.Restart(ctx, stack.SnapshotController, "--kube-api-qps=200", "--kube-api-burst=400"); err != nil {
		fmt.Println(err)
	}
	if err := s.Stop(ctx, stack.Snapshotter); err != nil {
		fmt.Println(err)
	}
}

// A stack of one's own, which test/e2e/run ends if the test cannot.
func ExampleUp() {
	ctx := context.Background()
	s, err := stack.Up(ctx, stack.Options{Fsync: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Config("my-test").Host)
	if err := s.Down(ctx); err != nil {
		fmt.Println(err)
	}
}
