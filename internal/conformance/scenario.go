package conformance

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sheetanchor/sheetanchor/backuptest"
)

// Scenario is a list of steps and what comes of them.
type Scenario struct {
	// Name is the name of its golden file, and part of its namespace's.
	Name string
	// Reason says what real-stack behaviour it holds.
	Reason string
	// Scripts are the storage's, by claim.
	Scripts map[string]backuptest.Script
	// Steps are done one after another.
	Steps []Step

	noEvents bool     // they go with the namespace
	groups   bool     // the cluster must have the group snapshot APIs
	mayMiss  []string // reasons of events that depend on who is faster
}

// Step is one thing that is done or waited for.
type Step func(ctx context.Context, r *run) error

//go:embed testdata/*.txt
var golden embed.FS

// Want is the outcome that every world must have, empty if there is no golden file.
func (s Scenario) Want() string {
	data, err := golden.ReadFile("testdata/" + s.Name + ".txt")
	if err != nil {
		return ""
	}
	return string(data)
}

// run is one scenario in one world.
type run struct {
	World
	scenario  Scenario
	namespace string
	record    *recorder
	names     map[string]string // what to replace in texts
	classes   map[string]string // created snapshot classes, by the name in the scenario
	handle    string            // kept by keepHandle
}

// settle is how long nothing must happen until a scenario is over: longer than events need to be recorded.
const settle = 3 * time.Second

// Run runs a scenario and returns its outcome, in the form of its golden file. What it made it takes away again. Its errors name the
// step.
func Run(ctx context.Context, w World, s Scenario) (outcome string, err error) {
	if w.Patience <= 0 {
		w.Patience = 2 * time.Minute
	}
	r := &run{World: w, scenario: s, names: map[string]string{}, classes: map[string]string{}}
	if err := r.begin(ctx); err != nil {
		return "", fmt.Errorf("scenario %s: %w", s.Name, err)
	}
	defer func() {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if cleaned := r.end(cleanup); cleaned != nil {
			err = errors.Join(err, fmt.Errorf("scenario %s: clean up: %w", s.Name, cleaned))
		}
	}()
	defer r.record.close()
	for i, step := range s.Steps {
		if err := step(ctx, r); err != nil {
			return "", fmt.Errorf("scenario %s: step %d: %w; now:%s", s.Name, i+1, err, r.record.state())
		}
	}
	if err := r.quiet(ctx); err != nil {
		return "", fmt.Errorf("scenario %s: %w", s.Name, err)
	}
	return r.outcome(ctx)
}

// quiet returns once nothing has happened for a while.
func (r *run) quiet(ctx context.Context) error {
	for {
		before := r.record.count()
		if err := sleep(ctx, settle); err != nil {
			return err
		}
		if r.record.count() == before {
			return nil
		}
	}
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, c := range r.columns {
		n += len(c.versions)
	}
	return n
}

// patient bounds one wait.
func (r *run) patient(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, r.Patience, fmt.Errorf("not within %v", r.Patience))
}

// await waits for a state of an object that the recorder follows.
func (r *run) await(ctx context.Context, key, what string, holds func(object *unstructured.Unstructured) bool) error {
	ctx, cancel := r.patient(ctx)
	defer cancel()
	err := r.record.wait(ctx, func() bool {
		object, ever := r.record.get(key)
		return ever && holds(object)
	})
	if err != nil {
		return fmt.Errorf("wait for %s to be %s: %w", key, what, err)
	}
	return nil
}
