package csisnapshot_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/sheetanchor/sheetanchor/csisnapshot"
)

const judgeUID = types.UID("uid-1")

var (
	judgeRef = csisnapshot.Ref{Namespace: "app", Name: "snap"}
	noon     = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
)

func judgeTarget() csisnapshot.Target {
	return csisnapshot.Target{Ref: judgeRef, UID: judgeUID, Driver: "csi.example.dev"}
}

// vs builds a snapshot; each edit adds something.
func vs(edits ...func(*csisnapshot.Snapshot)) *csisnapshot.Snapshot {
	s := &csisnapshot.Snapshot{Meta: csisnapshot.Meta{Namespace: "app", Name: "snap", UID: judgeUID, ResourceVersion: "1"}}
	for _, edit := range edits {
		edit(s)
	}
	return s
}

func vsStatus(s *csisnapshot.Snapshot) *csisnapshot.SnapshotStatus {
	if s.Status == nil {
		s.Status = &csisnapshot.SnapshotStatus{}
	}
	return s.Status
}

func vsReady(ready bool) func(*csisnapshot.Snapshot) {
	return func(s *csisnapshot.Snapshot) { vsStatus(s).ReadyToUse = &ready }
}

func vsError(text string, at time.Time) func(*csisnapshot.Snapshot) {
	return func(s *csisnapshot.Snapshot) {
		vsStatus(s).Error = &csisnapshot.StatusError{Message: &text, Time: &at}
	}
}

func vsTerminating(s *csisnapshot.Snapshot) { s.Deleted = &noon }
func vsUID(uid types.UID) func(*csisnapshot.Snapshot) {
	return func(s *csisnapshot.Snapshot) { s.UID = uid }
}

func vsFinalizer(f string) func(*csisnapshot.Snapshot) {
	return func(s *csisnapshot.Snapshot) { s.Finalizers = append(s.Finalizers, f) }
}

// vsc builds a content that refers to the snapshot.
func vsc(edits ...func(*csisnapshot.Content)) *csisnapshot.Content {
	c := &csisnapshot.Content{
		Meta:     csisnapshot.Meta{Name: "snapcontent-uid-1", ResourceVersion: "1"},
		Snapshot: csisnapshot.SnapshotRef{Namespace: "app", Name: "snap", UID: judgeUID}, Driver: "csi.example.dev",
	}
	for _, edit := range edits {
		edit(c)
	}
	return c
}

func vscStatus(c *csisnapshot.Content) *csisnapshot.ContentStatus {
	if c.Status == nil {
		c.Status = &csisnapshot.ContentStatus{}
	}
	return c.Status
}

func vscHandle(h string) func(*csisnapshot.Content) {
	return func(c *csisnapshot.Content) { vscStatus(c).Handle = &h }
}

func vscError(text string, at time.Time) func(*csisnapshot.Content) {
	return func(c *csisnapshot.Content) { vscStatus(c).Error = &csisnapshot.StatusError{Message: &text, Time: &at} }
}

func vscRef(uid types.UID) func(*csisnapshot.Content) {
	return func(c *csisnapshot.Content) { c.Snapshot.UID = uid }
}

func vscDriver(driver string) func(*csisnapshot.Content) {
	return func(c *csisnapshot.Content) { c.Driver = driver }
}

const invalid = `Failed to create snapshot: failed to take snapshot of the volume v: "rpc error: code = InvalidArgument desc = no"`

func TestJudge(t *testing.T) {
	t.Parallel()
	type look struct {
		vs  *csisnapshot.Snapshot
		vsc *csisnapshot.Content
	}
	final := csisnapshot.FinalCodes("InvalidArgument")
	tests := map[string]struct {
		reason    string
		looks     []look
		cut       bool
		ready     bool
		end       error
		diagnosis csisnapshot.Diagnosis
	}{
		"nothing happened yet": {
			"S7: never picked up is a diagnosis, not an end",
			[]look{{vs(), nil}},
			false, false, nil, csisnapshot.DiagnosisNeverPickedUp,
		},
		"a finalizer of the stack picks it up": {
			"S7: finalizer, content or status",
			[]look{{vs(vsFinalizer("snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection")), nil}},
			false, false, nil, csisnapshot.DiagnosisNone,
		},
		"a foreign finalizer does not": {
			"it says nothing about the snapshot-controller",
			[]look{{vs(vsFinalizer("example.dev/keep")), nil}},
			false, false, nil, csisnapshot.DiagnosisNeverPickedUp,
		},
		"a content that no sidecar touches": {
			"snap-35: a missing sidecar shows before the deadline",
			[]look{{vs(vsReady(false)), vsc()}},
			false, false, nil, csisnapshot.DiagnosisSidecarSilent,
		},
		"a handle cuts, without any status of the snapshot": {
			"S2: the content knows seconds sooner",
			[]look{{vs(), vsc(vscHandle("h"))}},
			true, false, nil, csisnapshot.DiagnosisNone,
		},
		"an empty handle does not cut": {
			"snap-46 S2: success needs a non-empty handle",
			[]look{{vs(vsReady(true)), vsc(vscHandle(""))}},
			false, false, nil, csisnapshot.DiagnosisNone,
		},
		"a content of another snapshot does not cut": {
			"S2: the reference's UID decides",
			[]look{{vs(vsReady(true)), vsc(vscHandle("h"), vscRef("other"))}},
			false, false, nil, csisnapshot.DiagnosisNone,
		},
		"ready with a handle": {
			"S2", []look{{vs(vsReady(true)), vsc(vscHandle("h"))}}, true, true, nil, csisnapshot.DiagnosisNone,
		},
		"ready beats an error": {
			"snap-8 S6: an old error may stand beside",
			[]look{{vs(vsReady(true), vsError(invalid, noon)), vsc(vscHandle("h"), vscError(invalid, noon))}},
			true, true, nil, csisnapshot.DiagnosisNone,
		},
		"ready beats deleted": {
			"S2: the order of the table", []look{{vs(vsReady(true), vsTerminating), vsc(vscHandle("h"))}}, true, true, nil, csisnapshot.DiagnosisNone,
		},
		"ready stays ready": {
			"snap-13: readyToUse may flip back",
			[]look{{vs(vsReady(true)), vsc(vscHandle("h"))}, {vs(vsReady(false)), nil}, {nil, nil}},
			true, true, nil, csisnapshot.DiagnosisNone,
		},
		"cut stays cut when the handle goes": {
			"S2: latched", []look{{vs(), vsc(vscHandle("h"))}, {vs(vsReady(false)), vsc()}}, true, false, nil, csisnapshot.DiagnosisNone,
		},
		"cut, then deleted": {
			"the cut stays; ready will not come",
			[]look{{vs(), vsc(vscHandle("h"))}, {nil, vsc(vscHandle("h"))}},
			true, false, csisnapshot.ErrDeleted, csisnapshot.DiagnosisDeleted,
		},
		"terminating counts as deleted": {
			"it goes as soon as finalizers let it", []look{{vs(vsTerminating), nil}}, false, false, csisnapshot.ErrDeleted, csisnapshot.DiagnosisDeleted,
		},
		"replaced": {
			"S8: another UID has the name",
			[]look{{vs(), nil}, {vs(vsUID("uid-2"), vsReady(true)), vsc(vscHandle("h2"), vscRef("uid-2"))}},
			false, false, csisnapshot.ErrReplaced, csisnapshot.DiagnosisReplaced,
		},
		"replaced beats deleted": {
			"S2: the order of the table", []look{{vs(vsUID("uid-2"), vsTerminating), nil}}, false, false, csisnapshot.ErrReplaced, csisnapshot.DiagnosisReplaced,
		},
		"a final error on the content": {
			"S6", []look{{vs(), vsc(vscError(invalid, noon))}}, false, false, csisnapshot.ErrFinal, csisnapshot.DiagnosisFinal,
		},
		"a final error on the snapshot": {
			"S6: both objects are ruled alike", []look{{vs(vsError(invalid, noon)), nil}}, false, false, csisnapshot.ErrFinal, csisnapshot.DiagnosisFinal,
		},
		"an error that is not final": {
			"S6: information, not an end",
			[]look{{vs(vsError("rpc error: code = Internal desc = x", noon)), nil}},
			false, false, nil, csisnapshot.DiagnosisError,
		},
		"deleted beats a final error": {
			"S2: the order of the table", []look{{vs(vsTerminating, vsError(invalid, noon)), nil}}, false, false, csisnapshot.ErrDeleted, csisnapshot.DiagnosisDeleted,
		},
		"an error that stood before the handle is old": {
			"the stack leaves it beside a snapshot that is made",
			[]look{{vs(), vsc(vscError(invalid+"x", noon))}, {vs(vsError(invalid, noon)), vsc(vscHandle("h"), vscError(invalid, noon))}},
			true, false, nil, csisnapshot.DiagnosisNone,
		},
		"an error after the handle is new": {
			"a driver may fail while it uploads",
			[]look{{vs(), vsc(vscHandle("h"))}, {vs(), vsc(vscHandle("h"), vscError(invalid, noon.Add(time.Minute)))}},
			true, false, csisnapshot.ErrFinal, csisnapshot.DiagnosisFinal,
		},
		"a creation time beside the error makes it old": {
			"the snapshot knows of the cut before its content was read",
			[]look{{vs(vsError(invalid, noon), func(s *csisnapshot.Snapshot) { s.Status.CreationTime = &noon }), nil}},
			false, false, nil, csisnapshot.DiagnosisError,
		},
		"class of another driver": {
			"S7: known from the content",
			[]look{{vs(vsReady(false)), vsc(vscDriver("other.example.dev"))}},
			false, false, nil, csisnapshot.DiagnosisClassOfAnother,
		},
		"class missing": {
			"S7: known from the text",
			[]look{{vs(vsError(`Failed to get snapshot class with error volumesnapshotclass.snapshot.storage.k8s.io "x" not found`, noon)), nil}},
			false, false, nil, csisnapshot.DiagnosisClassMissing,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := csisnapshot.NewState(judgeTarget())
			for i, l := range tt.looks {
				classifier := final
				if i < len(tt.looks)-1 {
					classifier = nil
				}
				s = csisnapshot.Judge(s, csisnapshot.Look{Snapshot: l.vs, Content: l.vsc, Classifier: classifier, Now: noon.Add(time.Duration(i) * time.Second)})
			}
			if s.Cut != tt.cut || s.Ready != tt.ready || !errors.Is(s.End, tt.end) || s.Diagnosis != tt.diagnosis {
				t.Errorf("Judge: cut %v, ready %v, end %v, diagnosis %q, want %v, %v, %v, %q: %s",
					s.Cut, s.Ready, s.End, s.Diagnosis, tt.cut, tt.ready, tt.end, tt.diagnosis, tt.reason)
			}
		})
	}
}

// subsets are snapshots and contents with every combination of absent fields.
func subsets() (snapshots []*csisnapshot.Snapshot, contents []*csisnapshot.Content) {
	snapshots, contents = []*csisnapshot.Snapshot{nil}, []*csisnapshot.Content{nil}
	texts := []*string{nil, new(""), new(invalid)}
	errs := []*csisnapshot.StatusError{nil}
	for _, text := range texts {
		errs = append(errs, &csisnapshot.StatusError{Message: text}, &csisnapshot.StatusError{Message: text, Time: new(noon)})
	}
	for _, uid := range []types.UID{judgeUID, "other", ""} {
		for _, deleted := range []*time.Time{nil, new(noon)} {
			base := csisnapshot.Meta{Namespace: "app", Name: "snap", UID: uid, Deleted: deleted}
			snapshots = append(snapshots, &csisnapshot.Snapshot{Meta: base})
			for _, ready := range []*bool{nil, new(false), new(true)} {
				for _, created := range []*time.Time{nil, new(noon)} {
					for _, e := range errs {
						snapshots = append(snapshots, &csisnapshot.Snapshot{
							Meta: base, Status: &csisnapshot.SnapshotStatus{ReadyToUse: ready, CreationTime: created, Error: e},
						})
					}
				}
			}
		}
	}
	for _, uid := range []types.UID{judgeUID, "other", ""} {
		base := csisnapshot.Content{Snapshot: csisnapshot.SnapshotRef{UID: uid}}
		contents = append(contents, &base)
		for _, handle := range []*string{nil, new(""), new("h")} {
			for _, size := range []*int64{nil, new(int64(1))} {
				for _, e := range errs {
					c := base
					c.Status = &csisnapshot.ContentStatus{Handle: handle, RestoreSize: size, Error: e}
					contents = append(contents, &c)
				}
			}
		}
	}
	return snapshots, contents
}

func TestJudgeOverAbsentFields(t *testing.T) {
	t.Parallel()
	// snap-14 snap-16 S8: any optional field of the two objects may be absent; S2's table holds for each combination, with
	// each thing seen before.
	snapshots, contents := subsets()
	fresh := csisnapshot.NewState(judgeTarget())
	cut := csisnapshot.Judge(fresh, csisnapshot.Look{Snapshot: vs(), Content: vsc(vscHandle("first")), Now: noon})
	ready := csisnapshot.Judge(cut, csisnapshot.Look{Snapshot: vs(vsReady(true)), Now: noon})
	final := csisnapshot.FinalCodes("InvalidArgument")
	for _, before := range []csisnapshot.State{fresh, cut, ready} {
		for _, s := range snapshots {
			for _, c := range contents {
				got := csisnapshot.Judge(before, csisnapshot.Look{Snapshot: s, Content: c, Classifier: final, Now: noon.Add(time.Minute)})
				if msg := against(before, s, c, got); msg != "" {
					t.Fatalf("before cut %v ready %v, snapshot %+v, content %+v: %s; got %+v", before.Cut, before.Ready, s, c, msg, got)
				}
			}
		}
	}
}

// against says where a judgement differs from the table of S2.
func against(before csisnapshot.State, s *csisnapshot.Snapshot, c *csisnapshot.Content, got csisnapshot.State) string {
	own := s != nil && s.UID == judgeUID
	cut := before.Cut || c.Handle() != "" && c.Snapshot.UID == judgeUID
	ready := before.Ready || cut && own && s.Status != nil && s.Status.ReadyToUse != nil && *s.Status.ReadyToUse
	replaced := s != nil && !own
	deleted := s == nil || own && s.Deleted != nil
	switch {
	case got.Cut != cut:
		return fmt.Sprintf("cut %v, want %v", got.Cut, cut)
	case got.Ready != ready:
		return fmt.Sprintf("ready %v, want %v", got.Ready, ready)
	case cut && got.Handle == "":
		return "cut without a handle"
	case before.Cut && got.Handle != before.Handle:
		return "another handle"
	case ready && got.End != nil:
		return "ready, and yet ended"
	case !ready && replaced && !errors.Is(got.End, csisnapshot.ErrReplaced):
		return "not replaced"
	case !ready && !replaced && deleted && !errors.Is(got.End, csisnapshot.ErrDeleted):
		return "not deleted"
	case !ready && !replaced && !deleted && got.End != nil && !errors.Is(got.End, csisnapshot.ErrFinal):
		return "ended without a reason"
	default:
		return ""
	}
}

func TestJudgeLatchesWhateverFollows(t *testing.T) {
	t.Parallel()
	// S2: over random histories cut and ready never go back, and the handle never changes.
	snapshots, contents := subsets()
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		s := csisnapshot.NewState(judgeTarget())
		for step := range 20 {
			before := s
			s = csisnapshot.Judge(s, csisnapshot.Look{
				Snapshot: snapshots[rnd.IntN(len(snapshots))], Content: contents[rnd.IntN(len(contents))], Now: noon.Add(time.Duration(step) * time.Second),
			})
			if before.Cut && !s.Cut || before.Ready && !s.Ready || before.PickedUp && !s.PickedUp || before.Handle != "" && s.Handle != before.Handle {
				t.Fatalf("went back from %+v to %+v", before.Result, s.Result)
			}
		}
	}
}

func TestJudgeCountsErrors(t *testing.T) {
	t.Parallel()
	// S6: the classifier is told how long errors stand and how many different ones there were since the last progress.
	var got []csisnapshot.ErrorInfo
	classifier := csisnapshot.ClassifierFunc(func(e csisnapshot.ErrorInfo) csisnapshot.Verdict {
		got = append(got, e)
		return csisnapshot.Verdict{RetryAfter: time.Hour}
	})
	s := csisnapshot.NewState(judgeTarget())
	look := func(after time.Duration, c *csisnapshot.Content) {
		s = csisnapshot.Judge(s, csisnapshot.Look{Snapshot: vs(), Content: c, Classifier: classifier, Now: noon.Add(after)})
	}
	look(0, vsc(vscError(invalid, noon)))
	look(time.Minute, vsc(vscError(invalid, noon)))
	look(2*time.Minute, vsc(vscError(invalid, noon.Add(90*time.Second))))
	want := []struct {
		age     time.Duration
		repeats int
	}{{0, 1}, {time.Minute, 1}, {2 * time.Minute, 2}}
	if len(got) != len(want) {
		t.Fatalf("%d calls, want %d", len(got), len(want))
	}
	for i, w := range want {
		if e := got[i]; e.Age != w.age || e.Repeats != w.repeats || e.Code != "InvalidArgument" || e.Kind != csisnapshot.KindContent || e.Driver != "csi.example.dev" {
			t.Errorf("call %d: %+v, want age %v, repeats %d", i, e, w.age, w.repeats)
		}
	}
	if want := noon.Add(time.Hour); !s.Paused.Equal(want) {
		t.Errorf("paused until %v, want %v", s.Paused, want)
	}
	look(3*time.Minute, vsc(vscHandle("h")))
	if !s.Paused.IsZero() || s.ErrorRepeats != 0 {
		t.Errorf("after progress: paused %v, repeats %d, want none", s.Paused, s.ErrorRepeats)
	}
}
