package main

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/sheetanchor/sheetanchor/backuptest"
	"github.com/sheetanchor/sheetanchor/examples/internal/programtest"
)

// The roles allow each request that runs send, and none that no run sends: also those of runs that resume. X3.
func TestRoles(t *testing.T) {
	t.Parallel()
	sent := map[string]bool{}
	synctest.Test(t, func(t *testing.T) {
		store := recorded(t)
		for _, args := range [][]string{{}, {"-map", "shop=market"}, {"-fail", "media=no"}, {"-store", store}, {"-store", store}} {
			stdout, _, _ := runHere(t, append([]string{"-o", "json"}, args...)...)
			for request := range decode(t, stdout).Requests {
				sent[request] = true
			}
		}
	})
	for k := 3; k < 60; k += 7 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			programtest.CrashAt(t, k, func(ctx context.Context, p *backuptest.Process) error {
				r, _, err := w.live(ctx, p)
				for request := range r.Requests {
					sent[request] = true
				}
				return err
			})
		})
	}
	programtest.CheckRoles(t, "rbac.yaml", sent)
}
