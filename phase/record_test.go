package phase_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sheetanchor/sheetanchor/internal/golden"
	"github.com/sheetanchor/sheetanchor/phase"
)

// paper is a document whose next saves and loads can be made to fail.
type paper struct {
	data       []byte
	load, save []error
	lost       bool // a failing save writes all the same
	saves      int
}

func (p *paper) Load(context.Context) ([]byte, error) {
	if err := pop(&p.load); err != nil {
		return nil, err
	}
	return p.data, nil
}

func (p *paper) Save(_ context.Context, data []byte) error {
	p.saves++
	if err := pop(&p.save); err != nil {
		if p.lost {
			p.data = data
		}
		return err
	}
	p.data = data
	return nil
}

var someTime = time.Date(2031, 5, 1, 12, 0, 0, 123456789, time.UTC)

func someChange() phase.Change[MyPhase] {
	return phase.Change[MyPhase]{
		From: phase.InProgress, To: phase.WaitingForPluginOperationsPartiallyFailed, Event: phase.EventCancel, UID: "uid-1",
		Reason: phase.ReasonCanceled, Message: `asked by "alice"`, Owner: "replica-1", At: someTime, Started: someTime.Add(-time.Hour), Entered: someTime, Changed: someTime,
	}
}

// X8: what outlives a process is a versioned contract. This file is what release 1 wrote; it must be readable for ever.
func TestRecordGolden(t *testing.T) {
	t.Parallel()
	doc := &paper{}
	rec := phase.NewDocumentRecord[MyPhase](doc, "uid-1")
	if err := rec.Save(t.Context(), someChange()); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "record-v1.json", doc.data)
	got, ok, err := rec.Load(t.Context())
	if diff := cmp.Diff(someChange(), got); diff != "" || !ok || err != nil {
		t.Errorf("Load = %v, %v (-saved +loaded):\n%s", ok, err, diff)
	}
	end := phase.Change[MyPhase]{
		From: phase.WaitingForPluginOperationsPartiallyFailed, To: phase.Failed, Reason: phase.ReasonCanceled, At: someTime, Terminal: true,
	}
	if err := rec.Save(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "record-v1-terminal.json", doc.data)
}

func TestMissingRecord(t *testing.T) {
	t.Parallel()
	if _, ok, err := phase.NewDocumentRecord[MyPhase](&paper{}, "uid-1").Load(t.Context()); ok || err != nil {
		t.Errorf("Load of an empty document = %v, %v, want none", ok, err)
	}
}

// X8, P6: a record that is not ours or cannot be read is an error, and nothing overwrites it.
func TestBadRecordsAreRefused(t *testing.T) {
	t.Parallel()
	const good = `{"version":1,"uid":"uid-1","from":"New","to":"InProgress","at":"2031-05-01T12:00:00Z"}`
	tests := map[string]struct {
		reason string
		data   string
		want   error
	}{
		"another object's": {"same name, new object", strings.Replace(good, "uid-1", "uid-0", 1), phase.ErrForeignRecord},
		"without a uid":    {"it could be anybody's", strings.Replace(good, "uid-1", "", 1), phase.ErrForeignRecord},
		"newer release":    {"release N-1 must not guess", strings.Replace(good, `"version":1`, `"version":2`, 1), phase.ErrInvalid},
		"newer form":       {"the error is about the version", `{"version":2,"uid":{"of":"uid-1"},"at":7}`, phase.ErrInvalid},
		"no version":       {"it is no record", `{}`, phase.ErrInvalid},
		"half written":     {"a store that is not durable", good[:40], phase.ErrInvalid},
		"no JSON":          {"garbage", "garbage", phase.ErrInvalid},
		"two documents":    {"garbage behind it", good + good, phase.ErrInvalid},
		"no target":        {"it says nothing", strings.Replace(good, "InProgress", "", 1), phase.ErrInvalid},
		"no source":        {"it says nothing", strings.Replace(good, "New", "", 1), phase.ErrInvalid},
		"no time":          {"it says nothing", strings.Replace(good, `"at":"2031-05-01T12:00:00Z"`, `"at":"0001-01-01T00:00:00Z"`, 1), phase.ErrInvalid},
		"huge":             {"hostile", good + strings.Repeat(" ", 1<<20), phase.ErrInvalid},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doc := &paper{data: []byte(tc.data)}
			rec := phase.NewDocumentRecord[MyPhase](doc, "uid-1")
			if _, ok, err := rec.Load(t.Context()); ok || !errors.Is(err, tc.want) {
				t.Errorf("Load = %v, %v, want %v: %s", ok, err, tc.want, tc.reason)
			} else if strings.HasPrefix(name, "newer ") && !strings.Contains(err.Error(), "version is 2, this release reads 1") {
				t.Errorf("Load = %v, want the versions in it: %s", err, tc.reason)
			}
			if err := rec.Save(t.Context(), someChange()); !errors.Is(err, tc.want) {
				t.Errorf("Save = %v, want %v: %s", err, tc.want, tc.reason)
			}
			a := newApplier(t, phase.NewMemory(phase.State[MyPhase]{UID: "uid-1"}), phase.ApplierOptions[MyPhase]{Record: rec})
			if _, err := a.Load(t.Context()); !errors.Is(err, tc.want) {
				t.Errorf("Applier.Load = %v, want %v", err, tc.want)
			}
			if doc.saves != 0 || string(doc.data) != tc.data {
				t.Errorf("%d saves, want the document untouched", doc.saves)
			}
		})
	}
}

func TestRecordOfAnotherObject(t *testing.T) {
	t.Parallel()
	doc := &paper{}
	a := newApplier(t, phase.NewMemory(phase.State[MyPhase]{UID: "uid-2"}), phase.ApplierOptions[MyPhase]{
		Record: phase.NewDocumentRecord[MyPhase](doc, "uid-1"),
	})
	state, err := a.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Apply(t.Context(), state, phase.EventStart, ""); !errors.Is(err, phase.ErrForeignRecord) || doc.saves != 0 {
		t.Errorf("Apply = %v after %d saves, want ErrForeignRecord and none", err, doc.saves)
	}
}

// P6 ops-16: an object that was created again under its old name does not inherit what its predecessor recorded, wherever
// that had come to.
func TestRecreatedObject(t *testing.T) {
	t.Parallel()
	for _, recorded := range []MyPhase{phase.InProgress, phase.Finalizing, phase.Completed} {
		t.Run(string(recorded), func(t *testing.T) {
			t.Parallel()
			doc := &paper{}
			rec := phase.NewDocumentRecord[MyPhase](doc, "uid-1")
			c := phase.Change[MyPhase]{From: phase.New, To: recorded, Event: "Something", UID: "uid-1", At: someTime}
			if err := rec.Save(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			memory := phase.NewMemory(phase.State[MyPhase]{UID: "uid-2"})
			a := newApplier(t, memory, phase.ApplierOptions[MyPhase]{Record: rec})
			state, err := a.Load(t.Context())
			if !errors.Is(err, phase.ErrForeignRecord) || state.Phase != phase.New {
				t.Errorf("Load = phase %s, %v, want New and ErrForeignRecord", state.Phase, err)
			}
			if len(memory.Changes()) != 0 || doc.saves != 1 {
				t.Errorf("%d changes and %d saves after Load, want none and the first", len(memory.Changes()), doc.saves)
			}
		})
	}
}

// P6: Save is a compare-and-swap that can be repeated, whatever the document answers.
func TestRecordSave(t *testing.T) {
	t.Parallel()
	disk := errors.New("disk full")
	first := phase.Change[MyPhase]{From: phase.New, To: phase.InProgress, Event: phase.EventStart, At: someTime, Owner: "a"}
	next := phase.Change[MyPhase]{From: phase.InProgress, To: phase.Finalizing, Event: phase.EventFinalize, At: someTime, Owner: "a"}
	tests := map[string]struct {
		reason string
		c      phase.Change[MyPhase]
		doc    paper
		want   error
		saves  int
	}{
		"follows":          {reason: "it starts where the record is", c: next, saves: 1},
		"the same again":   {reason: "it is there already", c: first},
		"another's":        {reason: "somebody else made the step", c: withOwner(first, "b"), want: phase.ErrConflict},
		"from elsewhere":   {reason: "the record moved on", c: phase.Change[MyPhase]{From: phase.Finalizing, To: phase.Completed, At: someTime}, want: phase.ErrConflict},
		"refused":          {reason: "nothing was written", c: next, doc: paper{save: []error{disk}}, want: disk, saves: 1},
		"answer lost":      {reason: "it was written; only the answer failed", c: next, doc: paper{save: []error{disk}, lost: true}, saves: 1},
		"unreadable after": {reason: "whether it was written is not known", c: next, doc: paper{save: []error{disk}, load: []error{nil, disk}}, want: phase.ErrUnknownOutcome, saves: 1},
		"unreadable":       {reason: "nothing is written blindly", c: next, doc: paper{load: []error{disk}}, want: disk},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doc := &paper{}
			rec := phase.NewDocumentRecord[MyPhase](doc, "uid-1")
			if err := rec.Save(t.Context(), first); err != nil {
				t.Fatal(err)
			}
			before := bytes.Clone(doc.data)
			doc.load, doc.save, doc.lost, doc.saves = tc.doc.load, tc.doc.save, tc.doc.lost, 0
			err := rec.Save(t.Context(), tc.c)
			if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
				t.Errorf("Save = %v, want %v: %s", err, tc.want, tc.reason)
			}
			if doc.saves != tc.saves {
				t.Errorf("%d saves, want %d: %s", doc.saves, tc.saves, tc.reason)
			}
			if written := !bytes.Equal(before, doc.data); written != (tc.saves == 1 && tc.want == nil) {
				t.Errorf("written %v: %s", written, tc.reason)
			}
		})
	}
}

func withOwner(c phase.Change[MyPhase], owner string) phase.Change[MyPhase] {
	c.Owner = owner
	return c
}

// P6: somebody else's change came between our reading and our writing.
func TestRecordSaveLosesARace(t *testing.T) {
	t.Parallel()
	other := &paper{}
	c := someChange()
	c.Owner = "b"
	if err := phase.NewDocumentRecord[MyPhase](other, "uid-1").Save(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	doc := &usurped{by: other.data}
	err := phase.NewDocumentRecord[MyPhase](doc, "uid-1").Save(t.Context(), someChange())
	if conflict, ok := errors.AsType[*phase.ConflictError](err); !ok || conflict.Owner != "b" {
		t.Errorf("Save = %v, want a ConflictError that names b", err)
	}
}

// usurped is a document that changes just before it is saved, and refuses that.
type usurped struct{ data, by []byte }

func (u *usurped) Load(context.Context) ([]byte, error) { return u.data, nil }

func (u *usurped) Save(context.Context, []byte) error {
	u.data = u.by
	return errors.New("precondition failed")
}

func TestFollows(t *testing.T) {
	t.Parallel()
	stored := someChange() // a cancel in the failing wait
	next := phase.Change[MyPhase]{From: stored.To, To: phase.FinalizingPartiallyFailed}
	tests := map[string]struct {
		reason string
		word   string
		from   MyPhase
		want   bool
	}{
		"knows the cancel":         {"the reason is carried on", phase.ReasonCanceled, stored.To, true},
		"knows something stronger": {"the store ended it", phase.ReasonStoreUnavailable, stored.To, true},
		"does not know the cancel": {"phase-8: the writer looked before it was recorded", phase.ReasonOperationsFailed, stored.To, false},
		"starts elsewhere":         {"somebody else moved on", phase.ReasonCanceled, phase.InProgress, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := next
			c.Reason, c.From = tc.word, tc.from
			if got := c.Follows(stored); got != tc.want {
				t.Errorf("Follows = %v, want %v: %s", got, tc.want, tc.reason)
			}
		})
	}
}

// Hostile input never panics, and what is accepted survives a round trip.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"version":1,"uid":"uid-1","from":"New","to":"InProgress","at":"2031-05-01T12:00:00Z"}`))
	f.Add([]byte(`{"version":1,"uid":"uid-1","from":"a","to":"b","at":"2031-05-01T12:00:00+23:59","started":"2031-05-01T12:00:00Z","terminal":true}`))
	f.Add([]byte(`[]`))
	f.Add([]byte(`{"version":1e0}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, ok, err := phase.NewDocumentRecord[MyPhase](&paper{data: data}, "uid-1").Load(t.Context())
		if err != nil || !ok {
			return
		}
		doc := &paper{}
		rec := phase.NewDocumentRecord[MyPhase](doc, "uid-1")
		if err := rec.Save(t.Context(), c); err != nil {
			t.Fatalf("Save of what was loaded: %v", err)
		}
		again, ok, err := rec.Load(t.Context())
		if !ok || err != nil || !cmp.Equal(c, again) {
			t.Errorf("loaded %+v, then %+v, %v", c, again, err)
		}
	})
}

// X8: when a phase was entered is kept over a change within it, in fields that earlier releases do not know and ignore.
func TestRecordKeepsTheTimes(t *testing.T) {
	t.Parallel()
	doc := &paper{}
	rec := phase.NewDocumentRecord[MyPhase](doc, "uid-1")
	c := someChange()
	c.From, c.Event, c.Owner = c.To, phase.EventTakeOver, "replica-2"
	c.Entered, c.Changed = someTime.Add(-2*time.Hour), someTime.Add(-time.Hour)
	if err := rec.Save(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "record-v1-takeover.json", doc.data)
	got, ok, err := rec.Load(t.Context())
	if diff := cmp.Diff(c, got); diff != "" || !ok || err != nil {
		t.Errorf("Load = %v, %v (-saved +loaded):\n%s", ok, err, diff)
	}
}

// X8, P4: work that an earlier release recorded, which knew no such times, is resumed: they count from its last change.
func TestRecordOfAnEarlierRelease(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/record-v1.json") // as the first release wrote it
	if err != nil {
		t.Fatal(err)
	}
	for _, unknown := range []string{"entered", "changed", "finalizing"} {
		if bytes.Contains(data, []byte(unknown)) {
			t.Fatalf("the record of the first release has the field %q", unknown)
		}
	}
	memory := phase.NewMemory(phase.State[MyPhase]{Phase: phase.InProgress, UID: "uid-1", Owner: "replica-1"})
	a := newApplier(t, memory, phase.ApplierOptions[MyPhase]{
		Record: phase.NewDocumentRecord[MyPhase](&paper{data: data}, "uid-1"), Owner: "replica-2",
		Clock: func() time.Time { return someTime.Add(time.Minute) },
	})
	r, err := a.Recover(t.Context(), leases{"replica-1": gone})
	want := phase.State[MyPhase]{
		Phase: failing, UID: "uid-1", Version: "3", Owner: "replica-2", Reason: phase.ReasonCanceled, Message: `asked by "alice"`,
		Started: someTime.Add(-time.Hour), Entered: someTime, Changed: someTime,
	}
	if diff := cmp.Diff(want, r.State); diff != "" || err != nil || !r.Mine || r.Action != phase.ActionResume {
		t.Errorf("Recover = %v, %v (-want +got):\n%s", r.Action, err, diff)
	}
}
