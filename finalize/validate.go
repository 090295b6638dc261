package finalize

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// ValidateVolumes returns the hook "validate-volumes", which looks once whether every restored volume is there: a claim
// with the UID that the restore saw, bound to a persistent volume that is there and is its own. A volume that is missing or
// foreign is an error of the report, ErrVolumeMissing, ErrLostClaim, ErrReleasedVolume or ErrForeignVolume, with its claim
// named. A claim that is not bound is a warning: RestorePVs or the user's own wait has said why; so is a persistent volume
// that does not name its claim yet, or is being deleted. It needs list on
// persistentvolumeclaims in the namespaces of the volumes and list on persistentvolumes, and sends one paged list for each
// of them. A list that
// fails is tried again eight times, over two minutes. [New] refuses it when core is nil or a
// volume has no namespace or claim.
func ValidateVolumes(core kubernetes.Interface, volumes []RestoredVolume, after ...string) Hook {
	sorted := slices.SortedStableFunc(slices.Values(volumes), RestoredVolume.compare)
	h := Hook{Name: "validate-volumes", After: after, Retries: 8, Run: func(ctx context.Context) error {
		pvs, err := listPVs(ctx, core, sorted)
		if err != nil {
			return err
		}
		var faults []error
		claims, namespace := map[string]*corev1.PersistentVolumeClaim(nil), ""
		for _, v := range sorted {
			if claims == nil || v.Namespace != namespace {
				if claims, err = listClaims(ctx, core, v.Namespace); err != nil {
					return err
				}
				namespace = v.Namespace
			}
			faults = append(faults, validate(v, claims[v.Claim], pvs))
		}
		return Permanent(errors.Join(faults...)) // what was seen will be seen again
	}}
	return h.need("core", core).named(volumes)
}

// validate says what is wrong with a volume.
func validate(v RestoredVolume, pvc *corev1.PersistentVolumeClaim, pvs map[string]*corev1.PersistentVolume) error {
	err := func() error {
		switch {
		case pvc == nil:
			return fmt.Errorf("%w: there is no claim", ErrVolumeMissing)
		case v.ClaimUID != "" && pvc.UID != "" && pvc.UID != v.ClaimUID:
			return fmt.Errorf("%w: %s", ErrVolumeMissing, SkipRecreated)
		case pvc.Status.Phase == corev1.ClaimLost:
			return ErrLostClaim
		case pvc.Status.Phase != corev1.ClaimBound || pvc.Spec.VolumeName == "":
			return Warning(errors.New("the claim is not bound"))
		case pvs[pvc.Spec.VolumeName] == nil:
			return fmt.Errorf("%w: there is no persistent volume %s", ErrVolumeMissing, pvc.Spec.VolumeName)
		}
		switch found := judgePV(pvc, pvs[pvc.Spec.VolumeName]); {
		case found.wait != "":
			return Warning(errors.New(found.wait))
		case found.skip == SkipGone:
			return Warning(fmt.Errorf("persistent volume %s is being deleted", pvc.Spec.VolumeName))
		default:
			return found.err
		}
	}()
	if w, ok := errors.AsType[*warningError](err); ok {
		return Warning(Item(v.Namespace, v.Claim, w.err))
	}
	return Item(v.Namespace, v.Claim, err)
}

// listPVs returns the persistent volumes by name, none if there are no volumes.
func listPVs(ctx context.Context, core kubernetes.Interface, volumes []RestoredVolume) (map[string]*corev1.PersistentVolume, error) {
	if len(volumes) == 0 {
		return map[string]*corev1.PersistentVolume{}, nil
	}
	list, err := pages(ctx, func(ctx context.Context, opts metav1.ListOptions) (*corev1.PersistentVolumeList, error) {
		return core.CoreV1().PersistentVolumes().List(ctx, opts)
	}, func(l *corev1.PersistentVolumeList) []corev1.PersistentVolume { return l.Items })
	if err != nil {
		return nil, fmt.Errorf("list persistent volumes: %w", err)
	}
	out := make(map[string]*corev1.PersistentVolume, len(list))
	for i := range list {
		out[list[i].Name] = &list[i]
	}
	return out, nil
}
