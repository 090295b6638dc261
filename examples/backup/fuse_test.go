package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/operations"
)

var (
	errKilled = errors.New("the process was killed")
	errFailed = errors.New("503 slow down")
	errLost   = errors.New("connection reset")
)

// trouble is what happens to one write.
type trouble uint8

const (
	killed trouble = iota + 1 // done, and the process ends with it
	lost                      // done, and the answer is lost
	failed                    // not done
)

// fuse troubles some of the writes of a process: of the API, of the store and of hooks, counted together from one. After a
// kill nothing leaves the process any more.
type fuse struct {
	kill func(error)

	mu     sync.Mutex
	at     map[int]trouble
	writes int
	blown  bool
}

func killAt(k int) *fuse { return &fuse{at: map[int]trouble{k: killed}} }

func noTrouble() *fuse { return &fuse{} }

func (f *fuse) dead() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.blown
}

// write counts a write and does it, or not; it returns the error that the process sees.
func (f *fuse) write(do func() error) error {
	f.mu.Lock()
	f.writes++
	what := f.at[f.writes]
	f.mu.Unlock()
	if what == failed {
		return errFailed
	}
	if err := do(); err != nil {
		return err
	}
	switch {
	case what == killed:
		f.mu.Lock()
		f.blown = true
		f.mu.Unlock()
		f.kill(errKilled)
		return errKilled
	case f.dead():
		return errKilled
	case what == lost:
		return errLost
	}
	return nil
}

func (f *fuse) wrap(next http.RoundTripper) http.RoundTripper { return fusedTransport{next, f} }

type fusedTransport struct {
	http.RoundTripper

	f *fuse
}

func (t fusedTransport) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	if t.f.dead() {
		return nil, errKilled
	}
	if req.Method == http.MethodGet {
		return t.RoundTripper.RoundTrip(req)
	}
	err = t.f.write(func() (err error) {
		resp, err = t.RoundTripper.RoundTrip(req)
		return err
	})
	switch {
	case err == nil:
		return resp, nil
	case resp != nil:
		err = errors.Join(err, resp.Body.Close())
	}
	if errors.Is(err, errKilled) {
		return nil, err
	}
	return nil, io.ErrUnexpectedEOF // what a transport says of a connection that broke
}

type fusedStore struct {
	operations.Store

	f *fuse
}

func (s fusedStore) Read(ctx context.Context, name string) ([]byte, string, error) {
	if s.f.dead() {
		return nil, "", errKilled
	}
	return s.Store.Read(ctx, name)
}

func (s fusedStore) Write(ctx context.Context, name string, data []byte, old string) (version string, err error) {
	if s.f.dead() {
		return "", errKilled
	}
	err = s.f.write(func() (err error) {
		version, err = s.Store.Write(ctx, name, data, old)
		return err
	})
	if err != nil {
		return "", err
	}
	return version, nil
}

type fusedQuiescer struct {
	csisnapshot.Quiescer

	f *fuse
}

func (q fusedQuiescer) Exec(ctx context.Context, pod csisnapshot.PodRef, hook csisnapshot.Hook) error {
	if q.f.dead() {
		return errKilled
	}
	return q.f.write(func() error { return q.Quiescer.Exec(ctx, pod, hook) })
}
