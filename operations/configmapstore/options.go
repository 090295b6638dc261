package configmapstore

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
)

// maxConfigMap is the most that the API server lets a ConfigMap hold.
const maxConfigMap = 1 << 20

// Options are the options of a [Store]. The zero Options work.
type Options struct {
	// Prefix begins the names of the ConfigMaps and is the value of their label. Two stores of one namespace with different
	// prefixes do not meet. It must be a DNS label. Defaults to "sheetanchor".
	Prefix string
	// Domain stands before the names of the label and the annotations. It must be a DNS subdomain. Defaults to
	// "sheetanchor.io".
	Domain string
	// Labels are put on every ConfigMap that is written. The store's own label wins.
	Labels map[string]string
	// MaxBytes is how much one ConfigMap may hold. Defaults to, and is at most, 1 MiB, which is the API server's limit.
	MaxBytes int
}

// complete sets the defaults, or returns every fault.
func (o *Options) complete() error {
	if o.Prefix == "" {
		o.Prefix = "sheetanchor"
	}
	if o.Domain == "" {
		o.Domain = "sheetanchor.io"
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = maxConfigMap
	}
	o.Labels = maps.Clone(o.Labels)
	var faults []error
	for _, msg := range validation.IsDNS1123Label(o.Prefix) {
		faults = append(faults, fmt.Errorf("option Prefix %q: %s", o.Prefix, msg))
	}
	for _, msg := range validation.IsDNS1123Subdomain(o.Domain) {
		faults = append(faults, fmt.Errorf("option Domain %q: %s", o.Domain, msg))
	}
	if o.MaxBytes < 0 || o.MaxBytes > maxConfigMap {
		faults = append(faults, fmt.Errorf("option MaxBytes is %d, want 1 to %d", o.MaxBytes, maxConfigMap))
	}
	for _, key := range slices.Sorted(maps.Keys(o.Labels)) {
		for _, msg := range slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(o.Labels[key])) {
			faults = append(faults, fmt.Errorf("option Labels, %s=%s: %s", key, o.Labels[key], msg))
		}
	}
	return errors.Join(faults...)
}

func namespaceFault(namespace string) error {
	var faults []error
	for _, msg := range validation.IsDNS1123Label(namespace) {
		faults = append(faults, fmt.Errorf("namespace %q: %s", namespace, msg))
	}
	return errors.Join(faults...)
}
