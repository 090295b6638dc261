//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package atomicfile

import (
	"errors"
	"fmt"
	"io"
)

// TryLock implements [FS]: the platform has no flock.
func (OS) TryLock(name string) (io.Closer, error) {
	return nil, fmt.Errorf("lock %s: no flock on this platform: %w", name, errors.ErrUnsupported)
}
