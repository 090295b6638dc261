package csisnapshot

import (
	"errors"
	"strings"
)

// judgeErrors notes the errors that stand in the statuses and reports whether the classifier calls one final. The
// content's is looked at last, so that it is the one reported: the snapshot's is a copy of it, or says less.
func (s *State) judgeErrors(vs *Snapshot, vsc *Content, look Look) (final bool) {
	onSnapshot, onContent := statusErrors(vs, vsc)
	if onSnapshot != nil {
		old := s.isOld(onSnapshot) || vs.Status.CreationTime != nil && !s.Cut
		final = s.judgeError(KindSnapshot, onSnapshot, old, look) || final
	}
	if onContent != nil {
		final = s.judgeError(KindContent, onContent, s.isOld(onContent), look) || final
	}
	return final
}

// isOld reports whether the error is from before the cut.
func (s *State) isOld(e *StatusError) bool {
	return s.Cut && (e.Time == nil || !e.Time.After(s.oldError))
}

func (s *State) judgeError(kind string, e *StatusError, old bool, look Look) (final bool) {
	s.note(kind, e, look.Now)
	if old || look.Classifier == nil {
		return false
	}
	v := classify(look.Classifier, ErrorInfo{
		Driver: s.Driver, Kind: kind, Text: e.text(), Code: GRPCCode(e.text()),
		Reason: EventReason(e.text()), Age: look.Now.Sub(s.ErrorSince), Repeats: s.ErrorRepeats,
	})
	if until := s.ErrorSince.Add(v.RetryAfter); v.RetryAfter > 0 && until.After(s.Paused) {
		s.Paused = until
	}
	return v.Final
}

// classify calls the user's classifier. A panic in it counts as no opinion.
func classify(c Classifier, e ErrorInfo) (v Verdict) {
	defer func() {
		if recover() != nil {
			v = Verdict{}
		}
	}()
	return c.Classify(e)
}

// diagnose says why the snapshot ended or what it is waiting for.
func (s *State) diagnose(vs *Snapshot, vsc *Content) Diagnosis {
	switch {
	case s.End == nil:
	case errors.Is(s.End, ErrNotFound):
		return DiagnosisNotFound
	case errors.Is(s.End, ErrReplaced):
		return DiagnosisReplaced
	case errors.Is(s.End, ErrFinal):
		return DiagnosisFinal
	default:
		return DiagnosisDeleted
	}
	onSnapshot, onContent := statusErrors(vs, vsc)
	switch {
	case s.Ready:
		return DiagnosisNone
	case vsc != nil && s.Driver != "" && vsc.Driver != "" && vsc.Driver != s.Driver:
		return DiagnosisClassOfAnother
	case !s.Cut && classMissing(onSnapshot.text()):
		return DiagnosisClassMissing
	case onSnapshot != nil && !s.isOld(onSnapshot), onContent != nil && !s.isOld(onContent):
		return DiagnosisError
	case !s.PickedUp:
		return DiagnosisNeverPickedUp
	case vsc != nil && !s.Begun:
		return DiagnosisSidecarSilent
	default:
		return DiagnosisNone
	}
}

// classMissing recognises the snapshot-controller's texts for a class that does not exist and for no default class.
func classMissing(text string) bool {
	return strings.HasPrefix(text, "Failed to get snapshot class with error") ||
		strings.HasPrefix(text, "Failed to set default snapshot class with error")
}
