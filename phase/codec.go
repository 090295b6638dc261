package phase

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"
)

const (
	recordVersion = 1
	maxRecord     = 1 << 20 // bytes; a record is a few hundred
)

// recordJSON is the stored form of a change. It is a contract between releases: fields may be added to version 1 if an
// older release may ignore them; else the version is raised, and older releases refuse the record.
type recordJSON struct {
	Version    int       `json:"version"`
	UID        string    `json:"uid"`
	From       string    `json:"from"`
	To         string    `json:"to"`
	Event      Event     `json:"event,omitempty"`
	Reason     string    `json:"reason,omitempty"`
	Message    string    `json:"message,omitempty"`
	Owner      string    `json:"owner,omitempty"`
	At         time.Time `json:"at"`
	Started    time.Time `json:"started,omitzero"`
	Finalizing time.Time `json:"finalizing,omitzero"` // added later: a release that does not know it drops it
	Entered    time.Time `json:"entered,omitzero"`    // as Finalizing, and left out if it is At
	Changed    time.Time `json:"changed,omitzero"`    // as Entered
	Terminal   bool      `json:"terminal,omitempty"`
}

// encodeRecord refuses what decodeRecord would refuse or return as another change: such a record would stop the work for good.
func encodeRecord[P ~string](uid string, c Change[P]) ([]byte, error) {
	unlessAt := func(t time.Time) time.Time {
		if t.Equal(c.At) {
			return time.Time{}
		}
		return t
	}
	data, err := json.Marshal(recordJSON{
		Version: recordVersion, UID: uid, From: string(c.From), To: string(c.To), Event: c.Event,
		Reason: c.Reason, Message: c.Message, Owner: c.Owner, At: c.At, Started: c.Started,
		Finalizing: c.Finalizing, Entered: unlessAt(c.Entered), Changed: unlessAt(c.Changed), Terminal: c.Terminal,
	})
	if err != nil {
		return nil, fmt.Errorf("encode phase record: %w: %w", ErrInvalid, err)
	}
	data = append(data, '\n')
	back, err := decodeRecord[P](uid, data)
	if err != nil {
		return nil, fmt.Errorf("encode phase record: %w", err)
	}
	if !sameChange(back, c) {
		return nil, fmt.Errorf("encode phase record: %w: a name in it is not UTF-8: from %q to %q, event %q",
			ErrInvalid, c.From, c.To, c.Event)
	}
	return data, nil
}

// decodeRecord refuses what is not a whole record of version 1 for this UID.
func decodeRecord[P ~string](uid string, data []byte) (Change[P], error) {
	if len(data) > maxRecord {
		return Change[P]{}, fmt.Errorf("%w phase record: %d bytes, more than %d", ErrInvalid, len(data), maxRecord)
	}
	var form struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &form); err != nil {
		return Change[P]{}, fmt.Errorf("%w phase record: %w", ErrInvalid, err)
	}
	if form.Version != recordVersion { // before the rest, which a newer release may have written in another form
		return Change[P]{}, fmt.Errorf("%w phase record: version is %d, this release reads %d", ErrInvalid, form.Version, recordVersion)
	}
	var r recordJSON
	if err := json.Unmarshal(data, &r); err != nil {
		return Change[P]{}, fmt.Errorf("%w phase record: %w", ErrInvalid, err)
	}
	switch {
	case r.UID != uid:
		return Change[P]{}, fmt.Errorf("%w: uid is %q, not %q", ErrForeignRecord, r.UID, uid)
	case r.From == "" || r.To == "":
		return Change[P]{}, fmt.Errorf("%w phase record: from is %q, to is %q", ErrInvalid, r.From, r.To)
	case r.At.IsZero():
		return Change[P]{}, fmt.Errorf("%w phase record: at is missing", ErrInvalid)
	}
	return Change[P]{
		From: P(r.From), To: P(r.To), Event: r.Event, UID: r.UID, Reason: r.Reason, Message: r.Message, Owner: r.Owner,
		At: r.At, Started: r.Started, Finalizing: r.Finalizing, Terminal: r.Terminal,
		Entered: cmp.Or(r.Entered, r.At), Changed: cmp.Or(r.Changed, r.At),
	}, nil
}
