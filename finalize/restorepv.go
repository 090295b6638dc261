package finalize

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/sheetanchor/sheetanchor/operations"
)

// conflictTries is how often one call reads and judges a persistent volume that others write.
const conflictTries = 5

// one gives one persistent volume back what it had. Its deadline starts here.
func (r *pvRestore) one(ctx context.Context, it *pvItem) {
	ctx, stop := context.WithTimeout(ctx, min(pvCallTimeout, r.opts.ItemTimeout))
	defer stop()
	for range conflictTries {
		err := protect(ctx, func(ctx context.Context) error { return r.try(ctx, it) })
		if it.ended {
			return
		}
		if err == nil { // there is something to wait for
			return
		}
		it.fail(err)
		if !apierrors.IsConflict(err) {
			return
		}
	}
}

// try reads, judges and writes once.
func (r *pvRestore) try(ctx context.Context, it *pvItem) error {
	name := it.claim.Spec.VolumeName
	pv, err := r.core.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		it.take(verdict{wait: fmt.Sprintf("persistent volume %s is not there", name)})
		return nil
	}
	if err != nil {
		return fmt.Errorf("get persistent volume %s: %w", name, err)
	}
	it.outcome.PV = pv.Name
	if v := judgePV(it.claim, pv); !v.goOn() {
		it.take(v)
		return nil
	}
	saved := *it.outcome.Volume.Saved
	if !isPolicy(saved.ReclaimPolicy) {
		it.take(verdict{err: fmt.Errorf("%w record: reclaim policy %q", ErrInvalid, saved.ReclaimPolicy)})
		return nil
	}
	change, notes := changeOf(saved, pv)
	if r.opts.Adjust != nil {
		err := protect(ctx, func(ctx context.Context) error { return r.opts.Adjust(ctx, pv.DeepCopy(), &change) })
		if err != nil {
			it.take(verdict{err: fmt.Errorf("adjust persistent volume %s: %w", name, err)})
			return nil
		}
		change = change.against(pv)
	}
	if err := r.write(ctx, pv, change); err != nil {
		if apierrors.IsNotFound(err) {
			it.take(verdict{wait: fmt.Sprintf("persistent volume %s is not there any more", name)})
			return nil
		}
		return err
	}
	it.outcome.Change, it.outcome.Notes = change, notes
	it.take(verdict{})
	return nil
}

func (r *pvRestore) write(ctx context.Context, pv *corev1.PersistentVolume, change PVChange) error {
	if change.empty() {
		return nil
	}
	data, err := change.patch(pv)
	if err != nil {
		return err
	}
	_, err = r.core.CoreV1().PersistentVolumes().Patch(ctx, pv.Name, types.MergePatchType, data, metav1.PatchOptions{FieldManager: "sheetanchor"})
	if err != nil {
		return fmt.Errorf("patch persistent volume %s: %w", pv.Name, err)
	}
	return nil
}

func isPolicy(s string) bool {
	return slices.Contains([]corev1.PersistentVolumeReclaimPolicy{
		"", corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain, corev1.PersistentVolumeReclaimRecycle,
	}, corev1.PersistentVolumeReclaimPolicy(s))
}

// isRefusal reports whether the same request will be answered the same again, if the server was not just started.
func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err)
}

// operations reads the operations if a volume names one; nil when none does.
func (r *pvRestore) operations(ctx context.Context, open []*pvItem) (*operations.List, error) {
	if r.opts.Operations == nil || !slices.ContainsFunc(open, func(it *pvItem) bool { return it.outcome.Volume.OperationID != "" }) {
		return nil, nil //nolint:nilnil // no operations are an answer
	}
	rec, err := read(ctx, r.opts.Operations, r.opts.Key)
	if err != nil {
		return nil, err
	}
	return &rec.List, nil
}

// classes returns a function that lists the storage classes when it is first called; nil when they cannot be listed.
func (r *pvRestore) classes(ctx context.Context) func() *storageClasses {
	var known *storageClasses
	asked := false
	return func() *storageClasses {
		if asked {
			return known
		}
		asked = true
		list, err := pages(ctx, func(ctx context.Context, opts metav1.ListOptions) (*storagev1.StorageClassList, error) {
			return r.core.StorageV1().StorageClasses().List(ctx, opts)
		}, func(l *storagev1.StorageClassList) []storagev1.StorageClass { return l.Items })
		if err == nil {
			known = newStorageClasses(list)
		}
		return known
	}
}

// listClaims returns the claims of a namespace by name.
func listClaims(ctx context.Context, core kubernetes.Interface, namespace string) (map[string]*corev1.PersistentVolumeClaim, error) {
	list, err := pages(ctx, func(ctx context.Context, opts metav1.ListOptions) (*corev1.PersistentVolumeClaimList, error) {
		return core.CoreV1().PersistentVolumeClaims(namespace).List(ctx, opts)
	}, func(l *corev1.PersistentVolumeClaimList) []corev1.PersistentVolumeClaim { return l.Items })
	if err != nil {
		return nil, fmt.Errorf("list claims of namespace %s: %w", namespace, err)
	}
	out := make(map[string]*corev1.PersistentVolumeClaim, len(list))
	for i := range list {
		out[list[i].Name] = &list[i]
	}
	return out, nil
}

// pages lists everything, page by page. A list that expires half-way is begun again.
func pages[L metav1.ListInterface, T any](ctx context.Context, list func(context.Context, metav1.ListOptions) (L, error), items func(L) []T) ([]T, error) {
	for tries := 0; ; tries++ {
		all, err := onePass(ctx, list, items)
		if apierrors.IsResourceExpired(err) && tries < 3 {
			continue
		}
		return all, err
	}
}

func onePass[L metav1.ListInterface, T any](ctx context.Context, list func(context.Context, metav1.ListOptions) (L, error), items func(L) []T) ([]T, error) {
	ctx, stop := context.WithTimeout(ctx, pvCallTimeout)
	defer stop()
	var all []T
	opts := metav1.ListOptions{Limit: listPage}
	for {
		page, err := list(ctx, opts)
		if err != nil {
			return nil, err
		}
		all = append(all, items(page)...)
		if opts.Continue = page.GetContinue(); opts.Continue == "" {
			return all, nil
		}
	}
}
