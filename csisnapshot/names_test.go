package csisnapshot_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

func TestNamesAreAContract(t *testing.T) {
	t.Parallel()
	// X8 S9: a later release finds what this one made. These values may never change.
	owner := csisnapshot.Owner{UID: "4f2a1c9e-0000-4000-8000-000000000001", Namespace: "velero", Name: "nightly"}
	claim := csisnapshot.ClaimRef{Namespace: "app", Name: "data", UID: "9b1d7e3a-0000-4000-8000-000000000002"}
	got := csisnapshot.Names{}.NewSnapshot(owner, claim, "csi-snapclass")
	want := csisnapshot.Snapshot{
		Meta: csisnapshot.Meta{
			Namespace: "app",
			Name:      "sheetanchor-mf6ufcj5snqymaje-lao5x3i6nir3pfu6",
			Labels: map[string]string{
				"sheetanchor.io/owner": "4f2a1c9e-0000-4000-8000-000000000001", "sheetanchor.io/claim-uid": "9b1d7e3a-0000-4000-8000-000000000002",
			},
			Annotations: map[string]string{
				"sheetanchor.io/owner-uid": "4f2a1c9e-0000-4000-8000-000000000001", "sheetanchor.io/owner-name": "velero/nightly",
				"sheetanchor.io/claim-uid": "9b1d7e3a-0000-4000-8000-000000000002", "sheetanchor.io/claim-name": "data",
			},
		},
		Claim: "data", Class: new("csi-snapclass"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("NewSnapshot: %s", diff)
	}
	if id := csisnapshot.OperationID(got.Ref(), time.Date(2026, 3, 1, 2, 3, 4, 5, time.FixedZone("x", 3600))); id != "app/"+got.Name+"/2026-03-01T01:03:04Z" {
		t.Errorf("operation ID %q", id)
	}
}

func TestNamesAreLegalAndDistinct(t *testing.T) {
	t.Parallel()
	// S9 snap-23 snap-49: legal for UIDs and names of any length, and one per pair of owner and claim.
	names := csisnapshot.Names{Prefix: strings.Repeat("p", 28), Domain: "backup.example.com"}
	if err := names.Validate(); err != nil {
		t.Fatal(err)
	}
	uids := []types.UID{"a", "b", "ab", types.UID(strings.Repeat("x", 300)), types.UID(strings.Repeat("x", 301)), "with space", "-", "sha256-a"}
	seen := map[string]string{}
	for _, owner := range uids {
		for _, claim := range uids {
			name := names.Snapshot(owner, claim)
			if msgs := validation.IsDNS1123Label(name); len(msgs) > 0 {
				t.Errorf("name %q: %v", name, msgs)
			}
			if other, twice := seen[name]; twice {
				t.Errorf("%q is the name of %s and of %s/%s", name, other, owner, claim)
			}
			seen[name] = string(owner + "/" + claim)
			if !names.OwnsName(owner, name) {
				t.Errorf("OwnsName(%q, %q) = false", owner, name)
			}
		}
	}
	values := map[string]bool{}
	for _, uid := range uids {
		value := csisnapshot.LabelValue(string(uid))
		if msgs := validation.IsValidLabelValue(value); len(msgs) > 0 || value == "" {
			t.Errorf("LabelValue(%q) = %q: %v", uid, value, msgs)
		}
		if values[value] {
			t.Errorf("LabelValue(%q) = %q is not distinct", uid, value)
		}
		values[value] = true
	}
}

func TestNamesOwn(t *testing.T) {
	t.Parallel()
	// S9 snap-19 snap-20: only objects with the owner's UID, in the label and in the annotation, are the owner's.
	names, owner := csisnapshot.Names{}, csisnapshot.Owner{UID: "me", Name: "b"}
	mine := names.NewSnapshot(owner, csisnapshot.ClaimRef{Namespace: "app", Name: "data", UID: "claim"}, "").Meta
	for name, tt := range map[string]struct {
		reason string
		owner  types.UID
		edit   func(*csisnapshot.Meta)
		want   bool
	}{
		"mine":            {"both are there", "me", func(*csisnapshot.Meta) {}, true},
		"another owner":   {"same names and labels of another backup", "you", func(*csisnapshot.Meta) {}, false},
		"label only":      {"labels are copied by tools", "me", func(m *csisnapshot.Meta) { m.Annotations = nil }, false},
		"annotation only": {"it would not be found again", "me", func(m *csisnapshot.Meta) { m.Labels = nil }, false},
		"no owner":        {"an empty UID owns nothing", "", func(m *csisnapshot.Meta) { m.Labels, m.Annotations = nil, nil }, false},
		"annotation of others": {"", "me", func(m *csisnapshot.Meta) {
			m.Annotations = names.Annotations(csisnapshot.Owner{UID: "you"}, csisnapshot.ClaimRef{})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := mine
			tt.edit(&m)
			if got := names.Owns(tt.owner, m); got != tt.want {
				t.Errorf("Owns(%q) = %v, want %v: %s", tt.owner, got, tt.want, tt.reason)
			}
		})
	}
}

func TestNamesAndOwnersAreValidated(t *testing.T) {
	t.Parallel()
	err := csisnapshot.Names{Prefix: "Upper", Domain: "not a domain"}.Validate()
	for _, field := range []string{"Names.Prefix", "Names.Domain"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("Validate() = %v, does not name %s", err, field)
		}
	}
	if err := (csisnapshot.Names{Prefix: strings.Repeat("p", 29)}).Validate(); err == nil {
		t.Error("a prefix of 29 characters is accepted")
	}
	for field, owner := range map[string]csisnapshot.Owner{"UID": {Name: "b"}, "Name": {UID: "u"}} {
		if err := owner.Validate(); err == nil || !strings.Contains(err.Error(), field+" is empty") {
			t.Errorf("owner without %s: %v", field, err)
		}
	}
}

func TestParseOperationID(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		reason, id string
		want       csisnapshot.Ref
		ok         bool
	}{
		"good":          {"", "app/snap-1/2026-03-01T01:03:04Z", csisnapshot.Ref{Namespace: "app", Name: "snap-1"}, true},
		"not created":   {"the volume has failed before", csisnapshot.OperationID(csisnapshot.Ref{Namespace: "app", Name: "snap-1"}, time.Time{}), csisnapshot.Ref{Namespace: "app", Name: "snap-1"}, true},
		"two parts":     {"no start", "app/snap-1", csisnapshot.Ref{}, false},
		"bad namespace": {"it would leave the path", "../snap-1/2026-03-01T01:03:04Z", csisnapshot.Ref{}, false},
		"bad name":      {"", "app//2026-03-01T01:03:04Z", csisnapshot.Ref{}, false},
		"bad start":     {"", "app/snap-1/yesterday", csisnapshot.Ref{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := csisnapshot.ParseOperationID(tt.id)
			if got != tt.want || (err == nil) != tt.ok {
				t.Errorf("ParseOperationID(%q) = %v, %v, want %v, ok %v: %s", tt.id, got, err, tt.want, tt.ok, tt.reason)
			}
		})
	}
}

func FuzzParseOperationID(f *testing.F) {
	f.Add("app/snap-1/2026-03-01T01:03:04Z")
	f.Fuzz(func(t *testing.T, id string) {
		ref, err := csisnapshot.ParseOperationID(id)
		if err == nil && !strings.HasPrefix(id, ref.String()+"/") {
			t.Errorf("ParseOperationID(%q) = %v", id, ref)
		}
	})
}
