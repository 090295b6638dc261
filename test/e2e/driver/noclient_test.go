package driver_test

import (
	"errors"
	"testing"

	"github.com/sheetanchor/sheetanchor/test/e2e/driver"
)

// A client that nobody made asks nobody and does not panic.
func TestNoClient(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]*driver.Client{"nil": nil, "zero": {}} {
		_, err := c.Snapshots(t.Context())
		for method, err := range map[string]error{
			"Ready": c.Ready(t.Context()), "SetScript": c.SetScript(t.Context(), "*/*", driver.Script{}), "Snapshots": err,
		} {
			if !errors.Is(err, driver.ErrNoClient) {
				t.Errorf("%s of the %s Client = %v, want ErrNoClient", method, name, err)
			}
		}
		c.Close()
	}
}
