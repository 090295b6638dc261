package driver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/sheetanchor/sheetanchor/internal/atomicfile"
)

const (
	stateVersion = 1
	maxStateFile = 64 << 20 // bytes
)

// state is the content of the state file. A state that was published is never changed.
type state struct {
	Version int
	Volumes map[string]Volume // by handle
	Groups  map[string]Group  // by handle
	Rules   []Rule            // in the order they were set
	Limits  map[string]Limit  // by method
}

func (s *state) clone() *state {
	return &state{
		Version: s.Version, Volumes: maps.Clone(s.Volumes), Groups: maps.Clone(s.Groups),
		Rules: slices.Clone(s.Rules), Limits: maps.Clone(s.Limits),
	}
}

// volume returns the volume that a CreateVolume call of that name made.
func (s *state) volume(name string) (Volume, bool) {
	v, found := s.Volumes[handle("vol", name)]
	return v, found
}

// groupOf returns the handle of the group that a snapshot belongs to, or "".
func (s *state) groupOf(snapshot string) string {
	for id, g := range s.Groups {
		if slices.Contains(g.Members, snapshot) {
			return id
		}
	}
	return ""
}

// store keeps a state in its file.
type store struct {
	file    string
	turn    chan struct{} // holds one value while a change is made
	current atomic.Pointer[state]
	changed atomic.Pointer[chan struct{}] // closed at the next change
}

func openStore(file string) (*store, error) {
	st := &store{file: file, turn: make(chan struct{}, 1)}
	loaded, err := readState(file)
	if err != nil {
		return nil, err
	}
	st.current.Store(loaded)
	st.changed.Store(new(make(chan struct{})))
	return st, nil
}

func readState(file string) (*state, error) {
	s := &state{Version: stateVersion, Volumes: map[string]Volume{}, Groups: map[string]Group{}, Limits: map[string]Limit{}}
	data, err := atomicfile.OS{}.ReadFile(file, maxStateFile)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("read state %s: %w", file, err)
	}
	if s.Version != stateVersion {
		return nil, fmt.Errorf("read state %s: version %d is not %d", file, s.Version, stateVersion)
	}
	if s.Volumes == nil || s.Groups == nil || s.Limits == nil {
		return nil, fmt.Errorf("read state %s: Volumes, Groups and Limits must not be null", file)
	}
	return s, nil
}

func (st *store) get() *state { return st.current.Load() }

// watch returns the state and a channel that is closed when it is no longer the newest.
func (st *store) watch() (*state, <-chan struct{}) {
	changed := *st.changed.Load() // before the state, so that no change is missed
	return st.current.Load(), changed
}

// change publishes what edit makes of a copy of the state when it is in the file. An error of edit is returned as it is
// and changes nothing.
func (st *store) change(edit func(*state) error) error {
	st.turn <- struct{}{}
	defer func() { <-st.turn }()
	next := st.current.Load().clone()
	if err := edit(next); err != nil {
		return err
	}
	data, err := json.MarshalIndent(next, "", " ")
	if err == nil {
		err = atomicfile.Write(atomicfile.OS{}, st.file, data)
	}
	if err != nil {
		return fmt.Errorf("write state %s: %w", st.file, err)
	}
	st.current.Store(next)
	close(*st.changed.Swap(new(make(chan struct{}))))
	return nil
}
