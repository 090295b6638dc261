package csisnapshot_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

// S12: the first rule that says anything decides, and what is ambiguous or wrong is an error that lists the candidates.
func TestSelectClass(t *testing.T) {
	t.Parallel()
	const (
		key   = "sheetanchor.io/csi-volumesnapshot-class"
		isDef = "snapshot.storage.kubernetes.io/is-default-class"
	)
	class := func(name, driver string, labels, annotations map[string]string) csisnapshot.Class {
		return csisnapshot.Class{
			Meta: csisnapshot.Meta{Name: name, Labels: labels, Annotations: annotations}, Driver: driver,
		}
	}
	plain := func(name string) csisnapshot.Class { return class(name, "d", nil, nil) }
	labelled := func(name string) csisnapshot.Class {
		return class(name, "d", map[string]string{key: "true"}, nil)
	}
	preset := func(name string) csisnapshot.Class {
		return class(name, "d", nil, map[string]string{isDef: "true"})
	}
	other := class("other", "e", map[string]string{key: "true"}, map[string]string{isDef: "true"})
	cases := map[string]struct {
		reason        string
		classes       []csisnapshot.Class
		claim, backup map[string]string
		want          string
		candidates    []string
		text          string
	}{
		"the claim's annotation comes first": {
			classes: []csisnapshot.Class{plain("a"), labelled("b"), preset("c")},
			claim:   map[string]string{key: "a"}, backup: map[string]string{key + "_d": "c"}, want: "a",
		},
		"then the backup's, for this driver": {
			classes: []csisnapshot.Class{plain("a"), labelled("b"), preset("c")},
			backup:  map[string]string{key + "_d": "a", key + "_e": "c", key: "b"}, want: "a",
		},
		"then the label":                   {classes: []csisnapshot.Class{plain("a"), labelled("b"), preset("c"), other}, want: "b"},
		"a label of false does not choose": {classes: []csisnapshot.Class{class("a", "d", map[string]string{key: "false"}, nil), preset("c")}, want: "c"},
		"then the default":                 {classes: []csisnapshot.Class{plain("a"), preset("c"), other}, want: "c"},
		"then the only one":                {classes: []csisnapshot.Class{plain("a"), other}, want: "a"},
		"a wrong name is not passed over": {
			reason:  "another class would be chosen than the one asked for",
			classes: []csisnapshot.Class{plain("b"), plain("a"), preset("c")},
			claim:   map[string]string{key: "z"}, candidates: []string{"a", "b", "c"},
			text: `no VolumeSnapshotClass for driver d: claim annotation sheetanchor.io/csi-volumesnapshot-class names class "z", which does not exist; candidates: a, b, c`,
		},
		"a class of another driver is an error": {
			reason:  "the cluster shows no error at all for it",
			classes: []csisnapshot.Class{plain("a"), other}, backup: map[string]string{key + "_d": "other"}, candidates: []string{"a"},
			text: `no VolumeSnapshotClass for driver d: backup annotation sheetanchor.io/csi-volumesnapshot-class_d names class "other" of another driver (e); candidates: a`,
		},
		"two labelled": {
			classes: []csisnapshot.Class{labelled("b"), labelled("a"), preset("c")}, candidates: []string{"a", "b"},
			text: "no VolumeSnapshotClass for driver d: several classes have the label sheetanchor.io/csi-volumesnapshot-class; candidates: a, b",
		},
		"two defaults": {
			classes: []csisnapshot.Class{preset("b"), preset("a"), plain("c")}, candidates: []string{"a", "b"},
			text: "no VolumeSnapshotClass for driver d: several classes are annotated as default; candidates: a, b",
		},
		"two plain ones": {
			classes: []csisnapshot.Class{plain("b"), plain("a")}, candidates: []string{"a", "b"},
			text: "no VolumeSnapshotClass for driver d: several classes and none is labelled or default; candidates: a, b",
		},
		"none of the driver": {classes: []csisnapshot.Class{other}, text: "no VolumeSnapshotClass for driver d: the driver has none"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := csisnapshot.SelectClass(tc.classes, "d", tc.claim, tc.backup, csisnapshot.Names{})
			if got != tc.want {
				t.Errorf("SelectClass(...) = %q, want %q: %s", got, tc.want, tc.reason)
			}
			if tc.text == "" {
				if err != nil {
					t.Errorf("SelectClass(...): %v", err)
				}
				return
			}
			e, ok := errors.AsType[*csisnapshot.ClassError](err)
			if !ok || !errors.Is(err, csisnapshot.ErrNoClass) {
				t.Fatalf("SelectClass(...) error = %v, want a *ClassError that is ErrNoClass", err)
			}
			if err.Error() != tc.text {
				t.Errorf("error text\n got %s\nwant %s", err, tc.text)
			}
			if diff := cmp.Diff(tc.candidates, e.Candidates); diff != "" {
				t.Errorf("candidates (-want +got):\n%s", diff)
			}
		})
	}
}

// S12: a user's own domain replaces the library's.
func TestSelectClassDomain(t *testing.T) {
	t.Parallel()
	classes := []csisnapshot.Class{
		{Meta: csisnapshot.Meta{Name: "a"}, Driver: "d"},
		{Meta: csisnapshot.Meta{Name: "b", Labels: map[string]string{"velero.io/csi-volumesnapshot-class": "true"}}, Driver: "d"},
	}
	got, err := csisnapshot.SelectClass(classes, "d", nil, nil, csisnapshot.Names{Domain: "velero.io"})
	if err != nil || got != "b" {
		t.Errorf("SelectClass(...) = %q, %v, want b", got, err)
	}
}
