package volumekube

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
	"github.com/sheetanchor/sheetanchor/volumeinfo"
)

// ErrInvalid says that the arguments cannot be used as they are.
var ErrInvalid = errors.New("invalid")

// Options say what [Collect] reads. The zero value reads everything.
type Options struct {
	// Namespaces are those whose claims and snapshots are read, each once. Empty: all.
	Namespaces []string
	// Owner is the UID of the backup: only its snapshots are read, by label, and Inputs.Owner is set. Empty: all snapshots.
	Owner types.UID
	// Skipped are the claims that the backup's plans left out, their Plan.Skipped, which become Inputs.Skips. A claim that is
	// not CSI or not bound has no snapshot: unless it is here, volumeinfo.Build records it as failed. Empty: none was left out.
	Skipped []csisnapshot.Skip
	// Names are those that the snapshots were made with.
	Names csisnapshot.Names
	// PageSize is how many objects one page has. Zero or less: 500.
	PageSize int64
	// Concurrency is how many contents are read at the same time. Zero or less: 10.
	Concurrency int
	// Timeout bounds the whole. Zero or less: 10 minutes.
	Timeout time.Duration
}

// Result is what was collected.
type Result struct {
	// Inputs hold claims, persistent volumes, snapshots, contents and the skips of Options.Skipped; operations, records and
	// what else was skipped are the caller's to add.
	Inputs volumeinfo.Inputs
	// Warnings say in a line each what could not be read and is no error.
	Warnings []string
}

// Collect reads what the records of a backup's volumes are made of. Call it while the snapshots' objects are there: once they
// are released there is nothing to read. It needs list on persistentvolumeclaims and
// volumesnapshots in the namespaces, list on persistentvolumes and get on volumesnapshotcontents. A nil client, also
// that of a failed constructor, is [ErrInvalid].
func Collect(ctx context.Context, core kubernetes.Interface, snaps csisnapshot.Client, opts Options) (Result, error) {
	if set, ok := core.(*kubernetes.Clientset); core == nil || snaps == nil || ok && set == nil {
		return Result{}, fmt.Errorf("%w: core and snaps must be given", ErrInvalid)
	}
	if err := opts.Names.Validate(); err != nil {
		return Result{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	c := &collector{core: core, snaps: snaps, opts: opts.withDefaults()}
	c.result.Inputs.Skips = converted(opts.Skipped, skip)
	ctx, stop := context.WithTimeout(ctx, c.opts.Timeout)
	defer stop()
	for _, part := range []func(context.Context) error{c.claims, c.volumes, c.snapshots, c.contents} {
		if err := part(ctx); err != nil {
			return Result{}, err
		}
	}
	return c.result, nil
}

func (o Options) withDefaults() Options {
	if len(o.Namespaces) == 0 {
		o.Namespaces = []string{metav1.NamespaceAll}
	}
	if o.PageSize <= 0 {
		o.PageSize = 500
	}
	if o.Concurrency <= 0 {
		o.Concurrency = 10
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Minute
	}
	return o
}

type collector struct {
	core   kubernetes.Interface
	snaps  csisnapshot.Client
	opts   Options
	result Result
	names  []string // of contents, each once
}

func (c *collector) claims(ctx context.Context) (err error) {
	in := &c.result.Inputs
	in.Claims, err = each(ctx, "claims", c.opts.Namespaces, func(ctx context.Context, namespace, from string) ([]volumeinfo.Claim, string, error) {
		page, err := c.core.CoreV1().PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{Limit: c.opts.PageSize, Continue: from})
		if err != nil {
			return nil, "", err
		}
		return converted(page.Items, claim), page.Continue, nil
	})
	return err
}

func (c *collector) volumes(ctx context.Context) (err error) {
	in := &c.result.Inputs
	in.PVs, err = each(ctx, "persistent volumes", []string{""}, func(ctx context.Context, _, from string) ([]volumeinfo.PV, string, error) {
		page, err := c.core.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{Limit: c.opts.PageSize, Continue: from})
		if err != nil {
			return nil, "", err
		}
		return converted(page.Items, volume), page.Continue, nil
	})
	return err
}

func (c *collector) snapshots(ctx context.Context) error {
	opts := csisnapshot.ListOptions{Limit: c.opts.PageSize}
	if c.opts.Owner != "" {
		opts.Selector = c.opts.Names.OwnerSelector(c.opts.Owner)
		c.result.Inputs.Owner = string(c.opts.Owner)
	}
	found, err := each(ctx, "snapshots", c.opts.Namespaces, func(ctx context.Context, namespace, from string) ([]csisnapshot.Snapshot, string, error) {
		opts := opts
		opts.Continue = from
		page, err := c.snaps.Snapshots().List(ctx, namespace, opts)
		return page.Items, page.Continue, err
	})
	if apierrors.IsNotFound(err) {
		c.result.Warnings = append(c.result.Warnings, csisnapshot.ErrNoSnapshotAPI.Error()+": no snapshots are recorded")
		return nil
	}
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, vs := range found {
		s := c.snapshot(vs)
		c.result.Inputs.Snapshots = append(c.result.Inputs.Snapshots, s)
		if s.Content != nil && *s.Content != "" && !seen[*s.Content] {
			seen[*s.Content] = true
			c.names = append(c.names, *s.Content)
		}
	}
	return nil
}

// contents reads those of the snapshots. One that is not there gives no input, which is a gap of the snapshot's record.
func (c *collector) contents(ctx context.Context) error {
	found := make([]*volumeinfo.Content, len(c.names))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(c.opts.Concurrency)
	for i, name := range c.names {
		group.Go(func() error {
			vsc, err := c.snaps.Contents().Get(ctx, "", name)
			switch {
			case apierrors.IsNotFound(err):
				return nil
			case err != nil:
				return fmt.Errorf("get content %s: %w", name, err)
			}
			found[i] = new(content(vsc))
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, f := range found {
		if f != nil {
			c.result.Inputs.Contents = append(c.result.Inputs.Contents, *f)
		}
	}
	return nil
}

// each reads the pages of all namespaces. The list of a namespace that expires between two pages is begun again.
func each[T any](ctx context.Context, kind string, namespaces []string, page func(ctx context.Context, namespace, from string) ([]T, string, error)) ([]T, error) {
	var all []T
	done := map[string]bool{}
	for _, namespace := range namespaces {
		if done[namespace] {
			continue
		}
		done[namespace] = true
		begin, from, expired := len(all), "", 0
		for {
			items, next, err := page(ctx, namespace, from)
			if apierrors.IsResourceExpired(err) && from != "" && expired < 3 {
				all, from = all[:begin], ""
				expired++
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("list %s in namespace %q: %w", kind, namespace, err)
			}
			all = append(all, items...)
			if from = next; from == "" {
				break
			}
		}
	}
	return all, nil
}
