package csisnapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ErrClaimChanged says that a claim is not the one that was planned: it is gone, or another has its name. Nothing was done
// for it; a new plan is needed. The error is a [*ClaimChangedError].
var ErrClaimChanged = errors.New("the claim is not the one that was planned")

// ClaimChangedError tells what was planned and what was found. It is [ErrClaimChanged].
type ClaimChangedError struct {
	Namespace, Claim string
	// Planned is the UID in the plan, Found that of the claim now; empty when there is none.
	Planned, Found types.UID
}

// Error tells both UIDs. The claim's name is left to the error around it.
func (e *ClaimChangedError) Error() string {
	if e.Found == "" {
		return fmt.Sprintf("%v: UID %s is gone", ErrClaimChanged, e.Planned)
	}
	return fmt.Sprintf("%v: planned with UID %s, now UID %s", ErrClaimChanged, e.Planned, e.Found)
}

// Is reports whether the target is [ErrClaimChanged].
func (e *ClaimChangedError) Is(target error) bool { return target == ErrClaimChanged }

// checkClaims ends the volumes whose claims are not those planned any more, for a snapshot goes by the claim's name and would
// be another volume's. It reads one list for each namespace in which snapshots are to be made.
func (r *run) checkClaims(ctx context.Context) error {
	var unsent []*volumeRun
	for _, b := range r.batches {
		unsent = append(unsent, b.unsent(r)...)
	}
	for _, namespace := range namespacesOf(unsent) {
		found, err := r.claimsOf(ctx, namespace)
		if err != nil {
			return fmt.Errorf("list persistent volume claims of namespace %s: %w", namespace, err)
		}
		for _, v := range unsent {
			if uid := found[v.Claim]; v.Namespace == namespace && uid != v.ClaimUID {
				r.fail(v, &ClaimChangedError{Namespace: namespace, Claim: v.Claim, Planned: v.ClaimUID, Found: uid})
			}
		}
		if err := r.checkRoom(ctx, namespace, unsent); err != nil {
			return err
		}
	}
	return nil
}

// checkRoom ends the volumes of the namespace that have as many snapshots as their driver keeps.
func (r *run) checkRoom(ctx context.Context, namespace string, volumes []*volumeRun) error {
	limit := func(v *volumeRun) int {
		if v.Namespace != namespace || v.leaving != "" {
			return 0 // the place of one that leaves is the next one's
		}
		return r.s.opts.limitsOf(v.Driver).PerVolume
	}
	if !slices.ContainsFunc(volumes, func(v *volumeRun) bool { return limit(v) > 0 }) {
		return nil
	}
	found, err := r.listSnapshots(ctx, namespace, "")
	if err != nil {
		return err
	}
	taken := map[string]int{}
	for _, s := range found {
		taken[s.Claim]++
	}
	for _, v := range volumes {
		if most := limit(v); most > 0 && taken[v.Claim] >= most {
			r.fail(v, fmt.Errorf("%w: %d of %d", ErrVolumeFull, taken[v.Claim], most))
		}
	}
	return nil
}

// claimsOf are the UIDs of the namespace's claims by their names.
func (r *run) claimsOf(ctx context.Context, namespace string) (map[string]types.UID, error) {
	found := map[string]types.UID{}
	err := pages(ctx, r.s.opts.Wait.Timeout, func(ctx context.Context, opts metav1.ListOptions) (string, error) {
		list, err := r.s.core.CoreV1().PersistentVolumeClaims(namespace).List(ctx, opts)
		if err != nil {
			return "", err
		}
		for i := range list.Items {
			found[list.Items[i].Name] = list.Items[i].UID
		}
		return list.Continue, nil
	}, func() { clear(found) })
	return found, err
}
