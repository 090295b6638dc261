package finalize

import (
	"encoding/json"
	"fmt"
	"time"
)

// checkpointVersion is the version of the checkpoint's form. A file of a higher one is refused.
const checkpointVersion = 1

// checkpoint is what outlives the process: when the work began and which hooks have ended, or failed and how often.
// Hooks that the program does not have, of an older or newer release, are kept.
type checkpoint struct {
	Version int              `json:"version"`
	UID     string           `json:"uid,omitempty"`
	Started time.Time        `json:"started"`
	Hooks   map[string]*mark `json:"hooks"`
}

// mark is one hook's part of the checkpoint.
type mark struct {
	State      State   `json:"state"`
	Attempts   int     `json:"attempts,omitempty"`
	DurationMS int64   `json:"durationMillis,omitempty"`
	Error      string  `json:"error,omitempty"`
	Items      []Entry `json:"items,omitempty"`
}

func (c *checkpoint) encode() ([]byte, error) {
	data, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode %w: %w", ErrCheckpoint, err)
	}
	return append(data, '\n'), nil
}

// decodeCheckpoint reads a checkpoint. No data is a new one, which has no start.
func decodeCheckpoint(data []byte, uid string) (*checkpoint, error) {
	c := &checkpoint{Version: checkpointVersion, UID: uid, Hooks: map[string]*mark{}}
	if len(data) == 0 {
		return c, nil
	}
	c.Version, c.UID = 0, ""
	if err := json.Unmarshal(data, c); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformedCheckpoint, err)
	}
	switch {
	case c.Version < 1:
		return nil, fmt.Errorf("%w: no version", ErrMalformedCheckpoint)
	case c.Version > checkpointVersion:
		return nil, fmt.Errorf("%w: version %d, this program reads up to %d", ErrMalformedCheckpoint, c.Version, checkpointVersion)
	case c.UID != uid:
		return nil, fmt.Errorf("%w: it is of %s, not of %s", ErrForeignCheckpoint, quote(c.UID), quote(uid))
	case c.Started.IsZero():
		return nil, fmt.Errorf("%w: no start", ErrMalformedCheckpoint)
	}
	if c.Hooks == nil {
		c.Hooks = map[string]*mark{}
	}
	for name, m := range c.Hooks {
		if m == nil || m.Attempts < 0 || m.State != Pending && !m.State.Ended() {
			return nil, fmt.Errorf("%w: hook %s has no state of a checkpoint", ErrMalformedCheckpoint, quote(name))
		}
	}
	return c, nil
}
