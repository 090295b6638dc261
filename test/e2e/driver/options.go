package driver

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sheetanchor/sheetanchor/test/e2e/internal/unixsocket"
)

// Options configure [Run]. All but Clock and Log must be given.
type Options struct {
	// Name is the CSI driver name.
	Name string
	// Endpoint is where the CSI services listen, as "unix:///absolute/path".
	Endpoint string
	// Control is where the control endpoint listens (HTTP), as "unix:///absolute/path".
	Control string
	// State is the file that keeps what the driver holds; the package comment names the files beside it. Its directory
	// must exist.
	State string
	// Clock tells the time that cuts, readiness, rate limits and the log of calls go by. Nil: time.Now.
	Clock func() time.Time
	// Log gets a line for each call that is answered with an error. Nil: nobody. Lines are written whole and one at a time.
	Log io.Writer
}

// withDefaults returns the options with their defaults, or every fault they have.
func (o Options) withDefaults() (Options, error) {
	var errs []error
	if o.Name == "" {
		errs = append(errs, errors.New("driver options: Name must be given"))
	}
	if _, err := unixsocket.Path(o.Endpoint); err != nil {
		errs = append(errs, fmt.Errorf("driver options: Endpoint: %w", err))
	}
	if _, err := unixsocket.Path(o.Control); err != nil {
		errs = append(errs, fmt.Errorf("driver options: Control: %w", err))
	}
	if o.Endpoint != "" && o.Endpoint == o.Control {
		errs = append(errs, fmt.Errorf("driver options: Endpoint and Control are both %s", o.Control))
	}
	if o.State == "" {
		errs = append(errs, errors.New("driver options: State must be given"))
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	return o, errors.Join(errs...)
}
