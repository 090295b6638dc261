package main

import (
	"testing"
	"testing/synctest"

	"github.com/sheetanchor/sheetanchor/examples/internal/programtest"
)

// The roles allow each request that runs send, and none that no run sends. X3.
func TestRoles(t *testing.T) {
	t.Parallel()
	used := map[string]bool{
		"create pods/exec": true, "get pods/exec": true, // the embedded cluster runs no commands
		"patch volumesnapshots": true, // by Action.Cancel, at the poller's deadline of hours
	}
	synctest.Test(t, func(t *testing.T) {
		for _, args := range [][]string{{}, {"-wait", "poll"}, {"-fail", "media=no"}, {"-slow", "media=40s"}} {
			stdout, _, _ := runHere(t, append([]string{"-o", "json", "-store", t.TempDir()}, args...)...)
			for request := range decode(t, stdout).Requests {
				used[request] = true
			}
		}
	})
	programtest.CheckRoles(t, "rbac.yaml", used)
}
