package csisnapshot

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Next is the next thing a person should look at, in one sentence; empty for [DiagnosisNone].
func (d Diagnosis) Next() string {
	switch d {
	case DiagnosisNone:
		return ""
	case DiagnosisNeverPickedUp:
		return "Look whether the snapshot-controller runs, and in its log: nothing has touched the VolumeSnapshot."
	case DiagnosisQueued:
		return "Wait, or raise --kube-api-qps of the snapshot-controller: it works on others of the driver."
	case DiagnosisSidecarSilent:
		return "Look whether the driver's controller pod runs with its csi-snapshotter container: nothing has touched the VolumeSnapshotContent."
	case DiagnosisClassMissing:
		return "List the VolumeSnapshotClasses: the one that is named does not exist, or none is the driver's default."
	case DiagnosisClassOfAnother:
		return "Compare the driver of the VolumeSnapshotClass with that of the PersistentVolume and name a class of that driver."
	case DiagnosisError, DiagnosisFinal:
		return "Look at the error, and for its cause in the log of the driver's controller pod and in the storage system."
	case DiagnosisNoProgress:
		return "Look in the log of the driver's controller pod, and in the storage system for the snapshot: it was begun and has not changed since."
	case DiagnosisNotFound:
		return "Look whether the VolumeSnapshot was ever created, and in which namespace."
	case DiagnosisDeleted:
		return "Look in the API server's audit log for who deleted the VolumeSnapshot, and whether its namespace is being deleted."
	case DiagnosisReplaced:
		return "Look for another process that makes VolumeSnapshots of this name: the object has another UID."
	case DiagnosisNotStarted:
		return "Look at the driver's other snapshots: it had stopped making progress before this one was sent."
	case DiagnosisUnreadable:
		return "Look at the roles of the program, and whether the snapshot API is installed: the objects could not be read."
	default:
		return "Look at the VolumeSnapshot, its VolumeSnapshotContent and the events of both."
	}
}

// EventNote is what an event of the cluster says.
type EventNote struct {
	Reason, Message string
	Warning         bool
	Last            time.Time // when it was last seen; zero if unknown
}

// Evidence is all that is known of a snapshot.
type Evidence struct {
	State         State       // as a wait left it; see [Judge]
	Snapshot      *Snapshot   // nil: there is none
	Content       *Content    // nil: there is none
	Events        []EventNote // of the snapshot, in any order
	ContentEvents []EventNote // of the content, which stand in namespace default
}

// Explanation is what is wrong with a snapshot, in words for people.
type Explanation struct {
	Diagnosis Diagnosis
	Cause     string // the most specific that is known; empty if nothing says why
	Source    string // where Cause stands: "content", "snapshot", "event of the content" or "event of the snapshot"
	Next      string // the next thing to look at; empty if nothing is remarkable
}

// Explain finds the most specific cause: an error in the content's status before the snapshot's, which is a copy of it or says
// less, then the newest warning among the content's events and among the snapshot's. Of an error that the driver gave, the
// cause is the driver's own message with its code. It is pure.
func Explain(e Evidence) Explanation {
	x := Explanation{Diagnosis: e.State.Diagnosis, Next: e.State.Diagnosis.Next()}
	onSnapshot, onContent := statusErrors(e.Snapshot, e.Content)
	switch {
	case e.State.Ready:
		return x
	case onContent != nil:
		x.Cause, x.Source = causeOf(onContent.text()), "content"
	case onSnapshot != nil:
		x.Cause, x.Source = causeOf(onSnapshot.text()), "snapshot"
	default:
		if x.Cause = newestWarning(e.ContentEvents); x.Cause != "" {
			x.Source = "event of the content"
		} else if x.Cause = newestWarning(e.Events); x.Cause != "" {
			x.Source = "event of the snapshot"
		}
	}
	if x.Cause == "" {
		x.Cause = e.State.LastError
	}
	if e.Content != nil && x.Diagnosis == DiagnosisClassOfAnother {
		x.Cause = fmt.Sprintf("the content's driver is %q, the volume's %q", e.Content.Driver, e.State.Driver)
		x.Source = "content"
	}
	return x
}

// causeOf is the driver's own words where the text has them.
func causeOf(text string) string {
	if code := GRPCCode(text); code != "" {
		return code + ": " + GRPCMessage(text)
	}
	return inLine(text)
}

func newestWarning(notes []EventNote) string {
	var best *EventNote
	for i, n := range notes {
		if n.Warning && (best == nil || n.Last.After(best.Last)) {
			best = &notes[i]
		}
	}
	if best == nil {
		return ""
	}
	return best.Reason + ": " + causeOf(best.Message)
}

// Explain reads the snapshot, its content and the events of both once and explains them. Driver is the volume's; empty if it
// is not known. Events that may not be read are left out. The error is of the reads of snapshot and content; a snapshot that
// does not exist is [DiagnosisNotFound] and no error.
func (s *Snapshotter) Explain(ctx context.Context, ref Ref, driver string) (Explanation, error) {
	if err := errors.Join(s.made(), ref.whole()); err != nil {
		return Explanation{}, fmt.Errorf("explain snapshot %s: %w", ref, err)
	}
	var e Evidence
	err := s.read(ctx, func(ctx context.Context) error {
		vs, err := s.snaps.Snapshots().Get(ctx, ref.Namespace, ref.Name)
		if err == nil {
			e.Snapshot = &vs
		}
		return err
	})
	if err != nil {
		return Explanation{}, fmt.Errorf("explain snapshot %s: %w", ref, err)
	}
	if e.Snapshot != nil && contentNameOf(e.Snapshot) != "" {
		err = s.read(ctx, func(ctx context.Context) error {
			vsc, err := s.snaps.Contents().Get(ctx, "", contentNameOf(e.Snapshot))
			if err == nil {
				e.Content = &vsc
			}
			return err
		})
		if err != nil {
			return Explanation{}, fmt.Errorf("explain snapshot %s: read its content: %w", ref, err)
		}
	}
	e.State = Judge(NewState(Target{Ref: ref, Driver: driver}), Look{Snapshot: e.Snapshot, Content: e.Content, Now: time.Now()})
	if e.Snapshot != nil {
		e.Events = s.eventsOf(ctx, ref.Namespace, e.Snapshot.Meta)
	}
	if e.Content != nil {
		e.ContentEvents = s.eventsOf(ctx, metav1.NamespaceDefault, e.Content.Meta)
	}
	return Explain(e), nil
}

// read makes one request within its own time; an object that is not there is no error.
func (s *Snapshotter) read(ctx context.Context, request func(context.Context) error) error {
	if err := bounded(ctx, s.opts.Wait.CallTimeout, request); !isGone(err) {
		return err
	}
	return nil
}

// eventsOf are the events of an object; none if they cannot be read.
func (s *Snapshotter) eventsOf(ctx context.Context, namespace string, of Meta) []EventNote {
	var list *corev1.EventList
	err := bounded(ctx, s.opts.Wait.CallTimeout, func(ctx context.Context) (err error) {
		list, err = s.core.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.name=" + of.Name, Limit: pageSize,
		})
		return err
	})
	if err != nil || list == nil {
		return nil
	}
	var notes []EventNote
	for _, event := range list.Items {
		if event.InvolvedObject.Name == of.Name && (of.UID == "" || event.InvolvedObject.UID == of.UID) {
			notes = append(notes, EventNote{
				Reason: event.Reason, Message: event.Message, Warning: event.Type == corev1.EventTypeWarning, Last: event.LastTimestamp.Time,
			})
		}
	}
	return notes
}

// Explain is what the wait's error says, in words for people. Events are not part of it; [Snapshotter.Explain] reads them.
func (e *WaitError) Explain() Explanation {
	d := e.Diagnosis
	if d == DiagnosisNone && errors.Is(e.Category, ErrTimeout) {
		d = DiagnosisNoProgress
	}
	x := Explanation{Diagnosis: d, Next: d.Next()}
	if e.LastError != "" {
		x.Cause, x.Source = causeOf(e.LastError), "snapshot"
		if e.ErrorKind == KindContent {
			x.Source = "content"
		}
	}
	return x
}
