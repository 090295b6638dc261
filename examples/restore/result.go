package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sheetanchor/sheetanchor/examples/internal/program"
	"github.com/sheetanchor/sheetanchor/finalize"
	"github.com/sheetanchor/sheetanchor/phase"
)

// result is what the program prints at the end; with -o json it is the one object on standard output.
type result struct {
	Name        string               `json:"name"`
	Phase       string               `json:"phase"`
	Reason      string               `json:"reason,omitempty"`
	Transitions []program.Transition `json:"transitions"`
	Volumes     []restored           `json:"volumes"`
	Hooks       []program.Hook       `json:"hooks"`
	Errors      []string             `json:"errors"`
	Warnings    []string             `json:"warnings"`
	Requests    map[string]int       `json:"requests"`
	Seconds     float64              `json:"seconds"`
}

// restored is one volume. Before is what the provisioner gave its persistent volume, if this process saw it.
type restored struct {
	Namespace string   `json:"namespace"`
	PVC       string   `json:"pvc"`
	PV        string   `json:"pv"`
	Before    *pvState `json:"before,omitempty"`
	After     pvState  `json:"after"`
}

type pvState struct {
	Policy string            `json:"policy"`
	Labels map[string]string `json:"labels"`
}

// progress listens to every package and shows what happens: plain lines, and nothing but the result with -o json.
type progress struct {
	stdout  io.Writer
	json    bool
	started time.Time

	mu          sync.Mutex // protects what follows
	transitions []program.Transition
	seen        map[string]pvState
}

func (p *progress) line(format string, args ...any) {
	if !p.json {
		fmt.Fprintln(p.stdout, program.Stamped(p.started, format, args...))
	}
}

// before notes what a persistent volume has before it is changed. It changes nothing of the change.
func (p *progress) before(_ context.Context, pv *corev1.PersistentVolume, _ *finalize.PVChange) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen == nil {
		p.seen = map[string]pvState{}
	}
	if _, ok := p.seen[pv.Name]; !ok {
		p.seen[pv.Name] = look(pv)
	}
	return nil
}

func (p *progress) phases() phase.Hooks[Phase] {
	return program.Phases[Phase](func(t program.Transition) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.transitions = append(p.transitions, t)
	}, p.line)
}

// collect makes the result from what is recorded and what is in the cluster.
func collect(ctx context.Context, job *Restore, env *environment, out *progress) (result, error) {
	state, err := job.Phase.Load(ctx)
	if err != nil {
		return result{}, err
	}
	data, err := job.Results.Load(ctx)
	if err != nil {
		return result{}, err
	}
	r := result{
		Name: job.Owner.Name, Phase: string(state.Phase), Reason: state.Reason, Transitions: append([]program.Transition{}, out.transitions...),
		Volumes: []restored{}, Hooks: program.Hooks(job.finalReport),
	}
	if r.Errors, r.Warnings, err = program.Results(data); err != nil {
		return result{}, err
	}
	for _, v := range job.Volumes {
		if err := r.addVolume(ctx, env, out, v); err != nil {
			return result{}, err
		}
	}
	r.Requests, r.Seconds = env.requests.Requests(), time.Since(out.started).Seconds()
	return r, nil
}

func (r *result) addVolume(ctx context.Context, env *environment, out *progress, v volume) error {
	made := restored{Namespace: v.Namespace, PVC: v.Claim}
	claim, err := env.core.CoreV1().PersistentVolumeClaims(v.Namespace).Get(ctx, v.Claim, metav1.GetOptions{})
	if err == nil && claim.Spec.VolumeName != "" {
		made.PV = claim.Spec.VolumeName
		var pv *corev1.PersistentVolume
		if pv, err = env.core.CoreV1().PersistentVolumes().Get(ctx, made.PV, metav1.GetOptions{}); err == nil {
			made.After = look(pv)
		}
		if before, ok := out.seen[made.PV]; ok {
			made.Before = &before
		}
	}
	r.Volumes = append(r.Volumes, made)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// finish prints the result.
func (p *progress) finish(r result) error {
	if p.json {
		return program.WriteJSON(p.stdout, r)
	}
	table := tabwriter.NewWriter(p.stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "\nVOLUME\tPERSISTENT VOLUME\tBEFORE\tAFTER")
	for _, v := range r.Volumes {
		before := "-"
		if v.Before != nil {
			before = v.Before.String()
		}
		fmt.Fprintf(table, "%s/%s\t%s\t%s\t%s\n", v.Namespace, v.PVC, program.Dash(v.PV), before, v.After)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	program.WriteTroubles(p.stdout, r.Errors, r.Warnings)
	_, err := fmt.Fprintf(p.stdout, "\n%s after %.1f s\n", r.Phase, r.Seconds)
	return err
}

// String returns the policy and the labels, for people.
func (s pvState) String() string {
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(s.Labels)) {
		labels = append(labels, key+"="+s.Labels[key])
	}
	return program.Dash(strings.TrimSpace(s.Policy + " " + strings.Join(labels, ",")))
}
