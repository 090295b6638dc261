package driver_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/sheetanchor/sheetanchor/test/e2e/driver"
	"go.uber.org/goleak"
)

// childDir names the directory of a driver that this test binary is to be, instead of running tests.
const childDir = "DRIVER_TEST_CHILD_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		os.Exit(beDriver(dir))
	}
	goleak.VerifyTestMain(m)
}

// beDriver serves as cmd/driver does.
func beDriver(dir string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	opts := optionsIn(dir)
	opts.Log = os.Stderr
	if err := driver.Run(ctx, opts); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
